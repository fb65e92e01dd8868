package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/tarn-go/tarn/bench/internal/child"
	"github.com/tarn-go/tarn/internal/leftout"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "serve" {
		if err := serve(os.Args[2]); err != nil {
			fail(err)
		}
		return
	}
	os.Exit(m.Run())
}

// TestAttacks is the short form: a tenth of each attack's steps. No healthy call fails, and where the server needs
// more than 64 MB grpc-go's needs more. When the garbage collector runs decides how much a process holds, so the
// bounds are wider by half than the command's.
func TestAttacks(t *testing.T) {
	if err := child.Readable(); err != nil {
		leftout.Skip(t, fmt.Sprintf("/proc: %v", err))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			ops := max(a.ops/10, min(a.ops, 10))
			tarn, err := measure(self, "tarn", a, ops)
			if err != nil {
				t.Fatal(err)
			}
			if tarn.failed > 0 || tarn.calls == 0 {
				t.Errorf("%d of %d healthy calls failed, the first with %v", tarn.failed, tarn.calls, tarn.firstErr)
			}
			if tarn.peak <= memoryBound*3/2 {
				return
			}
			grpc, err := measure(self, "grpc", a, ops)
			if err != nil {
				t.Fatal(err)
			}
			if tarn.peak > grpc.peak*3/2 {
				t.Errorf("a peak of %.0f MB, grpc-go's %.0f MB", mb(tarn.peak), mb(grpc.peak))
			}
		})
	}
}
