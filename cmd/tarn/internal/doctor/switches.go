package doctor

import (
	"fmt"
	"strings"

	"github.com/tarn-go/tarn/internal/plot"
)

// Verdicts on a switch.
const (
	pays    = "would pay"      // even its lower estimate is at least worthwhile
	mayPay  = "may pay"        // only its upper estimate is
	noPay   = "would not pay"  // neither is
	unknown = "not known"      // a source is missing
	absent  = "does not apply" // the program has nothing to switch
)

const hasIt = "the program has it" // why a switch that was made does not apply

const (
	worthwhile = 0.05 // of the processor time
	fewSamples = 100  // below which shares say nothing
	large      = 1024 // bytes of an allocation that a pool is for
)

// saved is which part of the processor time of the code that is replaced is saved, of small and of large messages. The ratios are those of
// docs/performance.md, which a test compares.
var saved = struct {
	rpc100, rpc1M   float64 // calls a second are 2.8 and 1.7 times those of grpc-go
	http100, http1M float64 // the processor time is 0.18 and 0.63 of net/http's
	smbSigned       float64 // bytes a second are 4 times those of go-smb2
	smbPlain        float64 // 1.2 times
}{1 - 1/2.8, 1 - 1/1.7, 1 - 0.18, 1 - 0.63, 1 - 1/4., 1 - 1/1.2}

// Switch is what one switch to Tarn would bring.
type Switch struct {
	Name    string  `json:"name"`
	Verdict string  `json:"verdict"`
	Least   float64 `json:"saves_least"` // of the program's processor time
	Most    float64 `json:"saves_most"`
	Because string  `json:"because"`
	How     string  `json:"how,omitempty"`
}

// estimate sets what s saves, and the verdict that follows from that.
func (s *Switch) estimate(least, most float64) {
	s.Least, s.Most = least, most
	switch {
	case least >= worthwhile:
		s.Verdict = pays
	case most >= worthwhile:
		s.Verdict = mayPay
	default:
		s.Verdict = noPay
	}
}

// Module is a module that a program is built of.
type Module struct {
	Path    string `json:"path"`
	Version string `json:"version"`
}

// relevant are the modules that matter to the verdicts.
var relevant = []string{"google.golang.org/grpc", "golang.org/x/net", "github.com/hirochachacha/go-smb2", "github.com/cloudsoda/go-smb2", "github.com/rclone/rclone",
	"github.com/tarn-go/tarn", "github.com/tarn-go/tarn/rpc", "github.com/tarn-go/tarn/smb"}

// module returns the version of a module that the program is built of.
func (r *Report) module(path string) (version string, ok bool) {
	for _, m := range r.Modules {
		if m.Path == path {
			return m.Version, true
		}
	}
	return "", false
}

// replaceable is code that a switch replaces.
type replaceable struct {
	owner       owner
	name        string // with the version, if that is known
	built       bool   // the program has it
	how         string
	least, most float64 // saved of its time
	figures     string  // what these rest on, behind its share
}

// replaced is the switch of code.
func (r *Report) replaced(name string, code replaceable) Switch {
	s := Switch{Name: name, Verdict: absent, Because: "no " + code.name + " in it"}
	share := r.CPU.owner(code.owner)
	switch {
	case r.CPU == nil && r.Go == "":
		s.Verdict, s.Because = unknown, "neither a program nor its CPU profile is given"
	case r.CPU == nil && code.built:
		s.Verdict, s.Because, s.How = unknown, code.name+" is in it; a CPU profile under load says how much time it takes"+code.figures, code.how
	case r.CPU == nil || !code.built && share == 0:
	case r.CPU.few():
		s.Verdict, s.Because, s.How = unknown, r.CPU.remedy()+code.figures, code.how
	default:
		s.estimate(share*code.least, share*code.most)
		s.Because = fmt.Sprintf("%s takes %s of the processor time%s", code.name, plot.Percent(share), code.figures)
		if s.Verdict != noPay {
			s.How = code.how
		}
	}
	return s
}

// rpc is the switch from grpc-go.
func (r *Report) rpc() Switch {
	version, ok := r.module("google.golang.org/grpc")
	what := strings.TrimSpace("grpc-go " + version)
	_, moved := r.module("github.com/tarn-go/tarn/rpc")
	if moved && r.CPU.owner(ownGRPC) < worthwhile {
		return Switch{Name: "rpc", Verdict: absent, Because: hasIt}
	}
	return r.replaced("rpc", replaceable{ownGRPC, what, ok && !moved, "tarn migrate ./... (docs/migrate-grpc.md)", saved.rpc1M, saved.rpc100,
		"; with rpc at both ends 2.8 times the calls a second at 100 B, 1.7 at 1 MiB"})
}

// h2http is the switch from HTTP/2 of net/http or of golang.org/x/net.
func (r *Report) h2http() Switch {
	s := Switch{Name: "h2http", Verdict: absent}
	share := r.CPU.owner(ownHTTP2)
	switch {
	case share >= worthwhile:
	case r.linked.h2http || r.CPU != nil && r.CPU.h2http:
		s.Because = hasIt
		return s
	case r.Go != "" && !r.linked.server && !r.linked.client:
		s.Because = "no server of net/http in it, and no client for HTTP/2"
		return s
	case r.CPU != nil && !r.CPU.few() && share == 0 && r.CPU.http1:
		s.Because = "net/http serves HTTP/1.1 here; h2http would serve HTTP/2"
		return s
	case r.CPU != nil && !r.CPU.few() && share == 0:
		s.Because = "no sample in net/http's HTTP/2"
		return s
	}
	what := "net/http's HTTP/2"
	if r.CPU == nil && r.linked.server {
		what = "a server of net/http"
	}
	return r.replaced(s.Name, replaceable{ownHTTP2, what, true, "h2http.ConfigureServer(srv, nil) (docs/h2http.md)", saved.http1M, saved.http100,
		"; a server on h2http takes 0.18 of the time of net/http's HTTP/2 at 100 B, 0.63 at 1 MiB"})
}

// smb is the switch from go-smb2.
func (r *Report) smb() Switch {
	what, present := "go-smb2", false
	for _, path := range []string{"github.com/hirochachacha/go-smb2", "github.com/cloudsoda/go-smb2"} {
		if version, ok := r.module(path); ok {
			what, present = what+" "+version, true
		}
	}
	how := "the import line (docs/migrate-go-smb2.md)"
	if _, ok := r.module("github.com/rclone/rclone"); ok {
		how = "type = tarnsmb (docs/migrate-rclone.md)"
	}
	least, most, figures := 0., saved.smbSigned, "; on smb 4 times the bytes a second of signed reads, 1.2 of plain, 1.0 of encrypted"
	if r.CPU != nil && r.CPU.signing > worthwhile {
		least, figures = saved.smbPlain, fmt.Sprintf(", signing %s%s", plot.Percent(r.CPU.signing), figures)
	}
	return r.replaced("smb", replaceable{ownSMB, what, present, how, least, most, figures})
}

// pool is the switch from buffers that the garbage collector frees.
func (r *Report) pool() Switch {
	s := Switch{Name: "pool", Verdict: unknown}
	switch {
	case r.CPU == nil || r.Heap == nil:
		s.Because = "needs a CPU profile and one of the heap"
		return s
	case r.CPU.few():
		s.Because = r.CPU.remedy()
		return s
	}
	// What the program's own large allocations cost, at most: the allocating and clearing of the functions that make them, and their part of
	// the collector's time.
	allocating := 0.
	for name := range r.Heap.places {
		allocating += r.CPU.ownAllocating[name]
	}
	most := allocating + r.CPU.activity(collecting)*r.Heap.Poolable
	if r.Heap.Poolable < 0.01 {
		most = 0
	}
	s.estimate(0, most)
	s.Because = fmt.Sprintf("allocation and clearing by the program's functions that allocate blocks of 1 KiB or more take %s, garbage collection %s; %s of the bytes allocated are such blocks",
		plot.Percent(allocating), plot.Percent(r.CPU.activity(collecting)), plot.Percent(r.Heap.Poolable))
	if s.Verdict != noPay {
		s.How = "tarn.Pool for byte slices of these places (docs/getting-started.md): " + strings.Join(r.Heap.Places, ", ")
	}
	return s
}

// checks is the switch to another level of checks of the program's pools.
func (r *Report) checks() Switch {
	s := Switch{Name: "checks", Verdict: absent, Because: "no pool of Tarn in it"}
	_, built := r.module("github.com/tarn-go/tarn")
	cost := r.CPU.owner(ownChecks)
	if !built && cost == 0 && r.CPU.owner(ownTarn) == 0 && r.snapshot == nil {
		return s
	}
	if cost >= worthwhile && !r.CPU.few() {
		s.estimate(cost, cost)
		s.Because, s.How = fmt.Sprintf("checks of buffers take %s of the processor time", plot.Percent(cost)), "Check: tarn.CheckSampled instead of CheckAll or CheckGuard"
		return s
	}
	if r.snapshot == nil {
		s.Verdict, s.Because = unknown, "needs the URL of the running program, with its debug page at /debug/tarn/"
		return s
	}
	var wrong []string
	off := false
	for _, p := range r.snapshot.Pools {
		if n := p.Leaked + p.Misused + p.Refused; n > 0 {
			wrong = append(wrong, fmt.Sprintf("%q %d leaked, %d misused, %d refused", p.Name, p.Leaked, p.Misused, p.Refused))
			off = off || p.Check == "off"
		}
	}
	switch {
	case len(wrong) == 0:
		s.Verdict, s.Because = noPay, "nothing was leaked or misused"
	case off:
		s.Verdict, s.Because, s.How = pays, "pools report: "+strings.Join(wrong, "; "), "TARN_CHECK=sampled names the places (docs/tuning.md)"
	default:
		s.Verdict, s.Because = noPay, "checks are on; the debug page has the places of: "+strings.Join(wrong, "; ")
	}
	return s
}
