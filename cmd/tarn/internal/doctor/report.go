package doctor

import (
	"cmp"
	"fmt"
	"go/version"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/google/pprof/profile"

	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/internal/plot"
)

// oldestGo is the oldest release that Tarn supports; go.mod has the same.
const oldestGo = "go1.26"

// Report is what the command says. Its JSON keeps its field names.
type Report struct {
	Verdict  string   `json:"verdict"`
	Go       string   `json:"go,omitempty"`
	Main     string   `json:"main,omitempty"` // the program's own module
	Modules  []Module `json:"modules"`        // those that matter to the verdicts
	CPU      *CPU     `json:"cpu,omitempty"`
	Heap     *Heap    `json:"heap,omitempty"`
	Switches []Switch `json:"switches"` // those that would pay most first

	linked   linked // with Go
	snapshot *debug.Snapshot
}

// CPU is what a CPU profile says. Shares are of its processor time.
type CPU struct {
	Seconds    float64              `json:"seconds"`          // of processor time
	Length     float64              `json:"duration_seconds"` // of the profile
	Samples    int64                `json:"samples"`
	Activities map[activity]float64 `json:"activities"`
	Owners     map[owner]float64    `json:"owners"`

	ownAllocating map[string]float64 // allocating and clearing, by the function of the program that it is due to
	signing       float64            // go-smb2's cryptography for signatures
	h2http        bool               // a sample is in it
	http1         bool               // a sample is in net/http's server of HTTP/1.1
}

// few reports whether there are too few samples for shares.
func (c *CPU) few() bool { return c.Samples < fewSamples }

// remedy says what to do about few samples.
func (c *CPU) remedy() string {
	return fmt.Sprintf("%s in %.3g s: too few; ask again with the program under load", plot.Counted(float64(c.Samples), "sample"), c.Length)
}

// owner returns the share of o; 0 without a profile.
func (c *CPU) owner(o owner) float64 {
	if c == nil {
		return 0
	}
	return c.Owners[o]
}

func (c *CPU) activity(a activity) float64 { return c.Activities[a] }

// Heap is what a heap or allocs profile says of all allocations since the program began.
type Heap struct {
	Bytes    int64    `json:"allocated_bytes"`
	Poolable float64  `json:"poolable"` // the share that the program's own blocks of 1 KiB or more have
	Places   []string `json:"places"`   // the functions that allocate most of these

	places map[string]int64 // bytes of these, by function
}

// examine says what would pay.
func (p *program) examine() *Report {
	r := &Report{Modules: []Module{}, snapshot: p.snapshot, linked: p.linked}
	if p.build != nil {
		r.Go, r.Main = p.build.GoVersion, p.build.Main.Path
		for _, m := range append(p.build.Deps, &p.build.Main) {
			if m.Replace != nil && m.Replace.Version != "" {
				m.Version = m.Replace.Version
			}
			if slices.Contains(relevant, m.Path) {
				r.Modules = append(r.Modules, Module{m.Path, m.Version})
			}
		}
	}
	if p.cpu != nil {
		r.CPU = cpuOf(p.cpu)
	}
	if p.heap != nil {
		r.Heap = heapOf(p.heap)
	}
	r.Switches = []Switch{r.rpc(), r.h2http(), r.smb(), r.pool(), r.checks()}
	rank := []string{pays, mayPay, unknown, noPay, absent}
	slices.SortStableFunc(r.Switches, func(a, b Switch) int {
		return cmp.Or(slices.Index(rank, a.Verdict)-slices.Index(rank, b.Verdict), cmp.Compare(b.Most, a.Most))
	})
	r.Verdict = r.verdict()
	return r
}

// verdict is the first line.
func (r *Report) verdict() string {
	named := func(verdict string) string {
		var names []string
		for _, s := range r.Switches {
			if s.Verdict == verdict {
				names = append(names, s.Name)
			}
		}
		return strings.Join(names, ", ")
	}
	var parts []string
	for _, v := range []string{pays, mayPay} {
		if names := named(v); names != "" {
			parts = append(parts, names+" "+v)
		}
	}
	switch names := named(unknown); {
	case len(parts) > 0:
		return strings.Join(parts, "; ")
	case names != "" && r.CPU != nil && r.CPU.few():
		return "not known whether this would pay: " + names + " (" + r.CPU.remedy() + ")"
	case names != "":
		return "not known whether this would pay: " + names
	}
	return "nothing would pay"
}

func cpuOf(p *profile.Profile) *CPU {
	c := &CPU{Activities: map[activity]float64{}, Owners: map[owner]float64{}, ownAllocating: map[string]float64{}, Length: time.Duration(p.DurationNanos).Seconds()}
	nanos, count := value(p, "cpu"), value(p, "samples")
	total := 0.
	for _, s := range p.Sample {
		total += float64(s.Value[nanos])
		if count >= 0 {
			c.Samples += s.Value[count]
		}
	}
	c.Seconds = total / 1e9
	for _, s := range p.Sample {
		share := float64(s.Value[nanos]) / max(total, 1)
		a, o := activityOf(s), ownerOf(s)
		c.Activities[a] += share
		c.Owners[o] += share
		if o == ownRest && (a == allocating || a == clearing && within(s, "runtime.mallocgc")) {
			c.ownAllocating[place(s)] += share
		}
		if o == ownSMB && within(s, "cmac") {
			c.signing += share
		}
		c.h2http = c.h2http || within(s, "github.com/tarn-go/tarn/h2http.")
		c.http1 = c.http1 || o != ownHTTP2 && within(s, "net/http.(*conn).serve")
	}
	delete(c.Activities, computing)
	return c
}

// place returns the innermost function of a sample that is the program's own; "": none is.
func place(s *profile.Sample) string {
	for name := range frames(s) {
		if ownerOfFunction(name) == ownRest {
			return name
		}
	}
	return ""
}

// within reports whether a function whose name contains text is on a sample's stack.
func within(s *profile.Sample, text string) bool {
	for name := range frames(s) {
		if strings.Contains(name, text) {
			return true
		}
	}
	return false
}

func heapOf(p *profile.Profile) *Heap {
	h := &Heap{Places: []string{}, places: map[string]int64{}}
	space, objects := value(p, "alloc_space"), value(p, "alloc_objects")
	poolable := int64(0)
	for _, s := range p.Sample {
		n := s.Value[space]
		h.Bytes += n
		if objects < 0 || s.Value[objects] == 0 || n/s.Value[objects] < large || ownerOf(s) != ownRest {
			continue
		}
		poolable += n
		h.places[place(s)] += n
	}
	h.Poolable = float64(poolable) / float64(max(h.Bytes, 1))
	names := slices.SortedFunc(maps.Keys(h.places), func(a, b string) int {
		return cmp.Or(cmp.Compare(h.places[b], h.places[a]), cmp.Compare(a, b))
	})
	for _, name := range names[:min(3, len(names))] {
		h.Places = append(h.Places, fetch.Clean(name))
	}
	return h
}

// print writes r as text.
func (r *Report) print(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", r.Verdict)
	for _, s := range r.Switches {
		saves := ""
		if s.Most >= worthwhile && s.Name != "checks" {
			saves = fmt.Sprintf(": %s to %s of the processor time", plot.Percent(s.Least), plot.Percent(s.Most))
			if s.Least == 0 {
				saves = fmt.Sprintf(": at most %s of the processor time", plot.Percent(s.Most))
			}
		}
		fmt.Fprintf(&b, "%s %s%s\n    %s\n", s.Name, s.Verdict, saves, s.Because)
		if s.How != "" {
			fmt.Fprintf(&b, "    -> %s\n", s.How)
		}
	}
	if r.Go != "" {
		fmt.Fprintf(&b, "\nbuilt by %s", printable(r.Go))
		if v, _, _ := strings.Cut(r.Go, " "); version.IsValid(v) && version.Compare(v, oldestGo) < 0 {
			fmt.Fprintf(&b, " (Tarn needs %s)", oldestGo)
		}
		for _, m := range r.Modules {
			fmt.Fprintf(&b, ", %s %s", m.Path, printable(cmp.Or(m.Version, "(devel)")))
		}
		b.WriteString("\n")
	}
	if c := r.CPU; c != nil {
		fmt.Fprintf(&b, "\n%.3g s of processor time in %.3g s, %d samples\n", c.Seconds, c.Length, c.Samples)
		t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
		for _, a := range activities {
			fmt.Fprintf(t, "  %s\t%s\n", a, plot.Percent(c.activity(a)))
		}
		fmt.Fprintln(t, "by whose code, with what the runtime and the kernel do for it:\t")
		for _, o := range slices.SortedFunc(maps.Keys(c.Owners), func(a, b owner) int { return cmp.Compare(c.Owners[b], c.Owners[a]) }) {
			fmt.Fprintf(t, "  %s\t%s\n", o, plot.Percent(c.Owners[o]))
		}
		t.Flush()
	}
	if h := r.Heap; h != nil {
		fmt.Fprintf(&b, "\n%s allocated; %s of it by the program's own code in blocks of 1 KiB or more\n", plot.Bytes(float64(h.Bytes)), plot.Percent(h.Poolable))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// printable replaces what a terminal would obey: a program's build information may be anybody's.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, s)
}
