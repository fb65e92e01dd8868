package main

import (
	"strings"
	"testing"
)

const recorded = `neutral 17 1.0: 500 cpu-clock:
	  4a1 github.com/tarn-go/tarn/h2.(*Conn).loop+0x11 (/tmp/neutral)
	  4a0 runtime.goexit.abi0+0x1 (/tmp/neutral)

neutral 17 1.1: 500 cpu-clock:
	  5b1 github.com/tarn-go/tarn/internal/workers.(*Pool[go.shape.*github.com/tarn-go/tarn/rpc.serverCall]).loop+0x2 (/tmp/neutral)
	  4a0 runtime.goexit.abi0+0x1 (/tmp/neutral)

neutral 17 1.2: 500 cpu-clock:
	ffff do_syscall_64+0x3 ([kernel.kallsyms])
	  4a1 github.com/tarn-go/tarn/h2.(*Conn).loop+0x11 (/tmp/neutral)
	  4a0 runtime.goexit.abi0+0x1 (/tmp/neutral)
`

func TestSamples(t *testing.T) {
	root, err := readSamples(strings.NewReader(recorded))
	if err != nil {
		t.Fatal(err)
	}
	exit := root.callees["runtime.goexit.abi0"]
	if root.samples != 3 || exit == nil || exit.samples != 3 {
		t.Fatalf("%d samples, goexit %+v", root.samples, exit)
	}
	loop := exit.callees["h2.(*Conn).loop"]
	if loop == nil || loop.samples != 2 || loop.callees["do_syscall_64"] == nil {
		t.Errorf("loop is %+v", loop)
	}
	if exit.callees["workers.(*Pool).loop"] == nil {
		t.Errorf("goexit called %v", exit.callees)
	}
}

func TestNoSamples(t *testing.T) {
	if _, err := readSamples(strings.NewReader("perf: no data\n")); err != errNoSamples {
		t.Errorf("got %v", err)
	}
}

// Functions below the least share are left out, and names are escaped.
func TestDraw(t *testing.T) {
	root := &call{name: "all"}
	for range 99 {
		root.add([]string{"a<b>"})
	}
	root.add([]string{"rare"})
	var b strings.Builder
	draw(&b, root, "a title", 0.02)
	got := b.String()
	if !strings.Contains(got, "a&lt;b&gt; 99.0 %") || strings.Contains(got, "rare") || !strings.Contains(got, "a title") {
		t.Error(got)
	}
	if n := strings.Count(got, "<g>"); n != 2 {
		t.Errorf("%d boxes", n)
	}
}
