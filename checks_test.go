package tarn_test

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/guard"
)

//go:noinline
func acquiredHere(p *tarn.Pool) tarn.Buffer { return p.Get(100) }

//go:noinline
func freedHere(b tarn.Buffer) { b.Free() }

//go:noinline
func slicedHere(b tarn.Buffer) tarn.Buffer { return b.Slice(1, 2) }

//tarn:allow double,use,leak the mistakes are what is tested
func TestCheckedMisuseNamesTheCallers(t *testing.T) {
	for _, c := range []struct {
		name  string
		abuse func(p *tarn.Pool)
		kind  tarn.MisuseKind
		want  []string
	}{
		{"double free", func(p *tarn.Pool) {
			b := acquiredHere(p)
			freedHere(b)
			b.Free()
		}, tarn.DoubleFree, []string{"double free", "acquiredHere", "freedHere", `pool "checked"`, "128 bytes"}},
		{"double free while others live", func(p *tarn.Pool) {
			b := acquiredHere(p)
			defer b.Free()
			s := slicedHere(b)
			freedHere(s)
			s.Free()
		}, tarn.DoubleFree, []string{"double free", "slicedHere", "freedHere"}},
		{"use after free", func(p *tarn.Pool) {
			b := acquiredHere(p)
			freedHere(b)
			b.Bytes()
		}, tarn.UseAfterFree, []string{"use after free", "Bytes", "acquiredHere", "freedHere"}},
		{"use after free while others live", func(p *tarn.Pool) {
			b := acquiredHere(p)
			s := slicedHere(b)
			defer s.Free()
			freedHere(b)
			b.Ref()
		}, tarn.UseAfterFree, []string{"use after free", "Ref", "acquiredHere", "freedHere"}},
		{"use after the slab's next owner", func(p *tarn.Pool) {
			b := acquiredHere(p)
			freedHere(b)
			for range 2 {
				p.Get(100).Free()
			}
			b.Bytes()
		}, tarn.UseAfterFree, []string{"use after free", "acquiredHere", "freedHere"}},
		{"split and free the whole", func(p *tarn.Pool) {
			b := acquiredHere(p)
			head, tail := b.Split(10)
			defer tail.Free()
			freedHere(head)
			b.Free()
		}, tarn.DoubleFree, []string{"double free", "acquiredHere", "freed or handed over first at"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPool(t, tarn.PoolConfig{Name: "checked", Check: tarn.CheckAll})
			m, ok := caught(func() { c.abuse(p) }).(*tarn.Misuse)
			if !ok || m.Kind != c.kind {
				t.Fatalf("no *Misuse of kind %q: %v", c.kind, m)
			}
			for _, want := range c.want {
				if !strings.Contains(m.Error(), want) {
					t.Errorf("message lacks %q:\n%v", want, m)
				}
			}
			if n := len(p.Outstanding()); n != 0 {
				t.Errorf("%d buffers are out after the abuse", n)
			}
		})
	}
}

func TestOutstanding(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll})
	b := acquiredHere(p)
	s := slicedHere(b)
	list := p.Outstanding()
	if len(list) != 1 {
		t.Fatalf("%d outstanding", len(list))
	}
	o := list[0]
	if o.Size != 100 || o.Pinned != 128 || o.Every != 1 || o.Refs != 2 || !strings.Contains(o.String(), "acquiredHere") ||
		!strings.Contains(o.Last.String(), "slicedHere") {
		t.Errorf("Outstanding: %+v\n%v", o, o)
	}
	b.Free()
	if o := p.Outstanding()[0]; o.Refs != 1 || o.Seen != 1 {
		t.Errorf("%d references see %d bytes", o.Refs, o.Seen)
	}
	s.Free()
	if n := len(p.Outstanding()); n != 0 {
		t.Errorf("%d outstanding", n)
	}
	if newPool(t, tarn.PoolConfig{Check: tarn.CheckOff}).Outstanding() != nil {
		t.Error("outstanding buffers without checks")
	}
}

func TestSampledChecks(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckSampled, CheckEvery: 10})
	var held []tarn.Buffer
	const n = 20_000
	for range n {
		held = append(held, acquiredHere(p))
	}
	if got := len(p.Outstanding()); got < n/10/2 || got > n/10*2 {
		t.Errorf("%d of %d Gets are watched; one in 10 was asked for", got, n)
	}
	for _, b := range held {
		b.Free()
	}
	if got := len(p.Outstanding()); got != 0 {
		t.Errorf("%d outstanding", got)
	}
}

func TestProfile(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll})
	b := acquiredHere(p)
	var text, proto bytes.Buffer
	profile := pprof.Lookup("tarn.buffers")
	if err := profile.WriteTo(&text, 1); err != nil || !strings.Contains(text.String(), "acquiredHere") {
		t.Errorf("profile (%v):\n%s", err, text.String())
	}
	if err := profile.WriteTo(&proto, 0); err != nil {
		t.Fatal(err)
	}
	before := profile.Count()
	b.Free()
	if profile.Count() != before-1 {
		t.Errorf("the profile still counts a freed buffer")
	}
	file := t.TempDir() + "/buffers.pb.gz"
	if err := os.WriteFile(file, proto.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := goPprof("-top", file)
	if err != nil || !strings.Contains(out, "acquiredHere") {
		t.Errorf("go tool pprof: %v\n%s", err, out)
	}
}

func TestFreedMemoryIsPoisoned(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll})
	b := p.Copy([]byte("secret"))
	stale := b.Bytes() // to look at freed memory
	b.Free()
	//tarn:allow use the poison is what is tested
	if string(stale) != "\xDB\xDB\xDB\xDB\xDB\xDB" {
		t.Errorf("%q after Free", stale)
	}
}

// With CheckGuard a read through a slice kept too long faults on the spot.
func TestGuardFaults(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckGuard, Report: func(tarn.Misuse) {}})
	b := p.Copy([]byte("secret"))
	stale := b.Bytes()
	b.Free()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var seen byte
	fault := caught(func() { seen = stale[0] })
	switch {
	case !guard.Supported && seen != 0xDB:
		t.Errorf("neither guarded nor poisoned: %#x", seen)
	case guard.Supported && !isFault(fault):
		t.Errorf("read %#x through a slice kept too long (%v)", seen, fault)
	}
}

// A fault is explained: who acquired the memory, and who freed it.
func TestFaultsAreExplained(t *testing.T) {
	if !guard.Supported {
		t.Log("no page protection on this platform")
		return
	}
	p := newPool(t, tarn.PoolConfig{Name: "guarded", Check: tarn.CheckGuard})
	b := acquiredHere(p)
	stale := b.Bytes()
	freedHere(b)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for _, at := range []int{0, 99} {
		m, ok := p.ExplainFault(caught(func() { stale[at]++ }))
		if !ok || m.Kind != tarn.UseAfterFree {
			t.Fatalf("no explanation of a fault at byte %d: %v", at, m)
		}
		for _, want := range []string{"use after free", "acquiredHere", "freedHere", `pool "guarded"`} {
			if !strings.Contains(m.Error(), want) {
				t.Errorf("the explanation lacks %q:\n%v", want, m)
			}
		}
	}
	if m, ok := p.ExplainFault(caught(func() { panic("mine") })); ok {
		t.Errorf("another panic is explained as %v", m)
	}
	if m, ok := newPool(t, tarn.PoolConfig{}).ExplainFault(caught(func() { stale[0]++ })); ok {
		t.Errorf("another pool explains %v", m)
	}
}

// The kernel bounds the mappings of a process, and Go programs crash that have used them up: guarded
// slabs take half of them and fall back then.
func TestGuardLeavesMappings(t *testing.T) {
	var fallbacks atomic.Int64
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckGuard, GuardBytes: 1 << 32, Record: tarn.RecordOff, Report: func(m tarn.Misuse) {
		if m.Kind == tarn.Unguarded {
			fallbacks.Add(1)
		}
	}})
	var held []tarn.Buffer
	for range 40_000 {
		held = append(held, p.Get(64))
	}
	for _, b := range held {
		b.Free()
	}
	if n := fallbacks.Load(); guard.Supported && n != 1 {
		t.Logf("%d reports of a fallback; vm.max_map_count is larger than usual", n)
	}
	if st := p.Stats(); st.InUse != 0 {
		t.Errorf("%d bytes in use", st.InUse)
	}
	collect(t, "mappings of the forgotten pool free again", func() bool {
		guarded := true
		q := newPool(t, tarn.PoolConfig{Check: tarn.CheckGuard, Report: func(tarn.Misuse) { guarded = false }})
		q.Get(1).Free()
		return guarded || !guard.Supported
	})
}

// isFault reports whether a panic is about an address that could not be read.
func isFault(v any) bool {
	_, ok := v.(interface{ Addr() uintptr })
	return ok
}

func TestGuardIsBoundedAndSaysWhenItIsOff(t *testing.T) {
	var reported []tarn.Misuse
	p := newPool(t, tarn.PoolConfig{
		Classes: []int{64 << 10}, Check: tarn.CheckGuard, GuardBytes: 256 << 10,
		Report: func(m tarn.Misuse) { reported = append(reported, m) },
	})
	for range 100 { // quarantine makes room for what comes
		p.Get(1000).Free()
	}
	if guard.Supported && len(reported) != 0 {
		t.Errorf("reported %v", &reported[0])
	}
	var held []tarn.Buffer
	for range 10 {
		held = append(held, p.Get(1000))
	}
	if len(reported) != 1 || reported[0].Kind != tarn.Unguarded || !strings.Contains(reported[0].Error(), "ordinary memory") {
		t.Errorf("beyond its bytes the guard reported %v", reported)
	}
	for _, b := range held {
		b.Free()
	}
	if st := p.Stats(); st.InUse != 0 || st.InUseBuffers != 0 {
		t.Errorf("%+v", st)
	}
}

func TestCheckFromEnvironment(t *testing.T) {
	for value, want := range map[string]tarn.CheckLevel{
		"": tarn.CheckOff, "off": tarn.CheckOff, "nonsense": tarn.CheckOff, "sampled": tarn.CheckSampled,
		"sampled:7": tarn.CheckSampled, "sampled:-1": tarn.CheckSampled, "all": tarn.CheckAll, "guard": tarn.CheckGuard,
	} {
		t.Setenv("TARN_CHECK", value)
		if got := newPool(t, tarn.PoolConfig{}).Stats().Check; got != want {
			t.Errorf("TARN_CHECK=%q gives %v, want %v", value, got, want)
		}
		if got := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll}).Stats().Check; got != tarn.CheckAll {
			t.Errorf("TARN_CHECK=%q overrides the config: %v", value, got)
		}
	}
	t.Setenv("TARN_CHECK", "sampled:1")
	p := newPool(t, tarn.PoolConfig{})
	b := p.Get(1)
	if len(p.Outstanding()) != 1 {
		t.Error("sampled:1 does not watch every Get")
	}
	b.Free()
}

func TestKindsHaveWords(t *testing.T) {
	for k := tarn.UseAfterFree; k <= tarn.WriteAfterFree; k++ {
		m := tarn.Misuse{Kind: k, Op: "Op", Size: 7}
		if strings.Contains(k.String(), "misuse") || !strings.Contains(m.Error(), "7") {
			t.Errorf("kind %d: %q", k, m.Error())
		}
	}
	if tarn.MisuseKind(99).String() != "misuse 99" {
		t.Error("an unknown kind")
	}
}

// Misuse that panics is counted and reported at every level, whoever recovers from the panic, and Misuses has the places.
func TestPanicsAreReported(t *testing.T) {
	for _, level := range []tarn.CheckLevel{tarn.CheckOff, tarn.CheckAll, tarn.CheckGuard} {
		var reported []tarn.Misuse
		p := newPool(t, tarn.PoolConfig{Check: level, Report: func(m tarn.Misuse) {
			if m.Kind != tarn.Unguarded {
				reported = append(reported, m)
			}
		}})
		for range 3 {
			b := p.Get(10)
			b.Free()
			caught(b.Free)
			caught(func() { b.Bytes() })
		}
		if st := p.Stats(); st.Misused != 6 || len(reported) != 6 {
			t.Errorf("%v: %d counted, %d reported, want 6", level, st.Misused, len(reported))
		}
		counts := map[tarn.MisuseKind]uint64{}
		for _, c := range p.Misuses() {
			counts[c.Kind] += c.Count
			if level != tarn.CheckOff && c.Kind != tarn.Unguarded && !strings.Contains(c.Acquired.Title(), "TestPanicsAreReported") {
				t.Errorf("%v: %v of what was acquired at %q", level, c.Kind, c.Acquired.Title())
			}
		}
		if counts[tarn.DoubleFree] != 3 || counts[tarn.UseAfterFree] != 3 {
			t.Errorf("%v: Misuses has %v", level, counts)
		}
	}
}

func contains(s, part string) bool { return strings.Contains(s, part) }

//go:noinline
func firstHolder(b tarn.Buffer) tarn.Buffer { return b.Ref() }

//go:noinline
func secondHolder(b tarn.Buffer) tarn.Buffer { return b.Slice(0, 10) }

// A leak report names the line that made the reference that is out, not the one that made the slab's first.
func TestHoldersNameWhoHolds(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll})
	var held []tarn.Buffer
	for range 500 {
		b := acquiredHere(p)
		held = append(held, firstHolder(b))
		b.Free()
	}
	b := acquiredHere(p)
	for range 2 {
		held = append(held, secondHolder(b))
	}
	b.Free()
	list := tarn.Holders(p.Outstanding())
	if len(list) != 2 {
		t.Fatalf("%d holders: %v", len(list), list)
	}
	if h := list[0]; h.References != 500 || h.Bytes != 500*100 || h.Pinned != 500*128 || !contains(h.String(), "firstHolder") || contains(h.String(), "acquiredHere") {
		t.Errorf("first: %v", h)
	}
	if h := list[1]; h.References != 2 || h.Bytes != 2*10 || h.Pinned != 128 || !contains(h.Stack.Title(), "secondHolder checks_test.go:") {
		t.Errorf("second, %s: %v", h.Stack.Title(), h)
	}
	for _, b := range held {
		b.Free()
	}
	if list := tarn.Holders(p.Outstanding()); len(list) != 0 {
		t.Errorf("%d holders of nothing", len(list))
	}
}

// With CheckSampled each tracked reference also stands for those that were not sampled.
func TestHoldersScaleSamples(t *testing.T) {
	const n, every = 20_000, 10
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckSampled, CheckEvery: every})
	var held []tarn.Buffer
	for range n {
		held = append(held, acquiredHere(p))
	}
	list := tarn.Holders(p.Outstanding())
	if len(list) != 1 || list[0].References < n/2 || list[0].References > n*2 || list[0].Pinned != int64(list[0].References)*128 {
		t.Errorf("%d holders: %+v", len(list), list)
	}
	for _, b := range held {
		b.Free()
	}
}

// getter is an io.Reader whose Read calls Get, so that frames of the standard library lie between.
type getter struct {
	p *tarn.Pool
	b tarn.Buffer
}

func (g *getter) Read(p []byte) (int, error) {
	g.b = g.p.Get(10)
	return len(p), nil
}

func TestTitles(t *testing.T) {
	p := newPool(t, tarn.PoolConfig{Check: tarn.CheckAll})
	w := tarn.NewWriter(p)
	w.WriteString("some bytes")
	title := p.Outstanding()[0].Stack.Title()
	if !strings.HasPrefix(title, "tarn_test.TestTitles checks_test.go:") {
		t.Errorf("title %q of what a Writer took", title)
	}
	w.Free()
	g := &getter{p: p}
	bufio.NewReader(g).ReadByte()
	if title := g.p.Outstanding()[0].Stack.Title(); !contains(title, "(*getter).Read") {
		t.Errorf("title %q of what a reader took", title)
	}
	g.b.Free()
	if title := tarn.Stack(nil).Title(); title != "" {
		t.Errorf("title %q of no stack", title)
	}
}

// go tool pprof reads the profile: who holds how many bytes, of which pool.
func TestWriteProfile(t *testing.T) {
	one := newPool(t, tarn.PoolConfig{Name: "one", Check: tarn.CheckAll})
	two := newPool(t, tarn.PoolConfig{Name: "two", Check: tarn.CheckAll})
	var held []tarn.Buffer
	for range 3 {
		b := one.Get(1 << 20)
		held = append(held, firstHolder(b))
		b.Free()
	}
	held = append(held, acquiredHere(two))
	var out bytes.Buffer
	if err := tarn.WriteProfile(&out, one, two); err != nil {
		t.Fatal(err)
	}
	for _, b := range held {
		b.Free()
	}
	file := t.TempDir() + "/buffers.pb.gz"
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"-top"}, []string{"firstHolder", "3MB"}},
		{[]string{"-top", "-sample_index=references"}, []string{"Showing nodes accounting for 4, 100% of 4 total"}},
		{[]string{"-top", "-tagfocus=pool=two"}, []string{"0.12kB", "acquiredHere"}},
		{[]string{"-tags"}, []string{"one", "two"}},
	} {
		text, err := goPprof(append(c.args, file)...)
		for _, want := range c.want {
			if err != nil || !strings.Contains(text, want) {
				t.Errorf("pprof %v (%v) lacks %q:\n%s", c.args, err, want, text)
			}
		}
		if strings.Contains(text, "internal/slab") {
			t.Errorf("frames of the core are shown:\n%s", text)
		}
	}
	if err := tarn.WriteProfile(failingWriter{}, one); !errors.Is(err, iotest.ErrTimeout) {
		t.Errorf("the writer's error is lost: %v", err)
	}
}

// goPprof runs go tool pprof, for this machine in tests for another, too. Go has it as source only, and go tool would build all that it
// imports once more, without the GOFLAGS that the tests are built with: almost a minute of processor time.
func goPprof(args ...string) (string, error) {
	cmd := exec.Command("go", append([]string{"run", "cmd/pprof"}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GOARCH=") || strings.HasPrefix(v, "CGO_ENABLED=")
	})
	text, err := cmd.CombinedOutput()
	return string(text), err
}

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, iotest.ErrTimeout }

// A panic of OnWatermark in Get or Acquire, which return nothing then, leaves nothing charged.
func TestPanicOfOnWatermarkTakesNothing(t *testing.T) {
	for name, get := range map[string]func(*tarn.Pool){
		"Get":     func(p *tarn.Pool) { p.Get(1024).Free() },
		"Acquire": func(p *tarn.Pool) { mustAcquire(t, p, 1024).Free() },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, tarn.PoolConfig{Budget: 1024, HighWater: 1024, OnWatermark: func(mark tarn.Watermark, _ int64) {
				if mark == tarn.AboveHigh {
					panic("mine")
				}
			}})
			for range 2 {
				if caught(func() { get(p) }) != "mine" {
					t.Fatal("the panic did not reach the caller")
				}
			}
			mustAcquire(t, p, 512).Free() // waits if a charge has stayed
		})
	}
}

// A panic of Observe, in Get or in the last Free, costs neither budget nor the clearing of the memory: the slab is not
// used again before the garbage collector has found it, and then it is cleared.
func TestPanicOfObserveLosesNothing(t *testing.T) {
	for name, at := range map[string]func(tarn.Loan) bool{
		"Get":  func(l tarn.Loan) bool { return l.Size > 0 },
		"Free": func(l tarn.Loan) bool { return l.Size == 0 },
	} {
		t.Run(name, func(t *testing.T) {
			fails := false
			p := newPool(t, tarn.PoolConfig{Budget: 1024, Retain: 1024, Classes: []int{1024}, Zero: tarn.ZeroOnFree, Observe: func(l tarn.Loan) {
				if fails && at(l) {
					panic("mine")
				}
			}})
			use := func() {
				b := mustAcquire(t, p, 1024)
				defer b.Free()
				for i, c := range b.Bytes() {
					if c != 0 {
						t.Fatalf("byte %d is %d", i, c)
					}
					b.Bytes()[i] = 1
				}
			}
			use()
			fails = true
			if caught(use) != "mine" {
				t.Fatal("the panic did not reach the caller")
			}
			fails = false
			use()
			collect(t, "found", func() bool { // the bound on what is kept has room for this slab again
				hits := p.Stats().Hits
				use()
				return p.Stats().Hits > hits
			})
		})
	}
}
