package tarn_test

import (
	"bytes"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"sync/atomic"
	"testing"

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
			caught(b.Free)               //tarn:allow use the second Free is what is tested
			caught(func() { b.Bytes() }) //tarn:allow use
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
