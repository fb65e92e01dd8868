package main

import (
	"fmt"
	"os"
	"testing"

	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/internal/leftout"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == "serve" {
		if err := serve(os.Args[2], kind(os.Args[3])); err != nil {
			fail(err)
		}
		return
	}
	os.Exit(m.Run())
}

// TestAttacks runs a tenth of each attack on rpc's server over plain connections, and a hundredth over
// TLS, over wrapped connections and on h2http's server; TARN_LONG=1 runs all of each everywhere. No healthy call
// fails, and where the server needs more than 64 MiB the peer's server needs more. A process's peak depends on when
// the garbage collector runs, so the bounds are wider by half than the command's.
func TestAttacks(t *testing.T) {
	if err := child.Readable(); err != nil {
		leftout.Skip(t, fmt.Sprintf("/proc: %v", err))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, on := range []servers{rpcServers, httpServers} {
		for _, k := range []kind{plain, overTLS, wrapped} {
			t.Run(on.tarn+"/"+string(k), func(t *testing.T) {
				share := 0.01
				if on == rpcServers && k == plain {
					share = 0.1
				}
				if os.Getenv("TARN_LONG") != "" {
					share = 1
				}
				for _, a := range attacks {
					if on.takes(a) {
						t.Run(a.name, func(t *testing.T) { mounted(t, self, on, k, a, share) })
					}
				}
			})
		}
	}
}

// mounted runs a share of a and checks what it costs.
func mounted(t *testing.T, self string, on servers, k kind, a attack, share float64) {
	tarn, err := measure(self, on.tarn, k, a, share)
	if err != nil {
		t.Fatal(err)
	}
	if tarn.failed > 0 || tarn.calls == 0 {
		t.Errorf("%d of %d healthy calls failed, the first with %v", tarn.failed, tarn.calls, tarn.firstErr)
	}
	if tarn.peak <= memoryBound*3/2 {
		return
	}
	peer, err := measure(self, on.peer, k, a, share)
	if err != nil {
		t.Fatal(err)
	}
	if tarn.peak > peer.peak*3/2 {
		t.Errorf("a peak of %.0f MB, that of %s %.0f MB", mb(tarn.peak), on.peer, mb(peer.peak))
	}
}
