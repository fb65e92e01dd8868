package main

import (
	"fmt"
	"os"
	"strings"
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

// TestResults: the results of all turns are printed, and then it is known whether each attack passed on each of Tarn's servers.
func TestResults(t *testing.T) {
	const mb = 1_000_000
	two := []attack{{name: "one"}, {name: "two", grpc: true}}
	for _, tc := range []struct {
		name string
		cost func(c column, turn int) cost
		says string // of an attack that does not pass
	}{
		{"all pass", func(column, int) cost { return cost{peak: 20 * mb, calls: 9} }, ""},
		{"no more memory than grpc-go", func(column, int) cost { return cost{peak: 200 * mb, calls: 9} }, ""},
		{"grpc-go fails", func(c column, _ int) cost {
			if c.peer == "grpc" {
				return cost{peak: 900 * mb, calls: 9, failed: 9}
			}
			return cost{peak: 20 * mb, calls: 9}
		}, ""},
		{"much memory in one turn", func(c column, turn int) cost {
			if c.peer == "h2http" && turn == 0 {
				return cost{peak: 200 * mb, calls: 9}
			}
			return cost{peak: 20 * mb, calls: 9}
		}, ""},
		{"much memory", func(c column, _ int) cost {
			if c.peer == "h2http" {
				return cost{peak: 200 * mb, calls: 9}
			}
			return cost{peak: 20 * mb, calls: 9}
		}, "# FAIL: one on h2http: "},
		{"a call fails in one turn", func(c column, turn int) cost {
			n := 0
			if c.peer == "rpc-wrapped" && turn == 1 {
				n = 1
			}
			return cost{peak: 20 * mb, calls: 9, failed: n}
		}, "# FAIL: one on rpc-wrapped: 1 healthy calls failed"},
		{"no call is made", func(c column, _ int) cost {
			if c.peer == "rpc" {
				return cost{peak: 20 * mb}
			}
			return cost{peak: 20 * mb, calls: 9}
		}, "# FAIL: one on rpc: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out strings.Builder
			seen := map[string]int{} // turns, by the column and the attack
			ok, err := printResults(&out, two, 3, func(c column, a attack) (cost, error) {
				turn := seen[c.peer+a.name]
				seen[c.peer+a.name]++
				if a.name == "two" {
					return cost{peak: 20 * mb, calls: 9}, nil
				}
				return tc.cost(c, turn), nil
			})
			if err != nil || ok != (tc.says == "") {
				t.Errorf("%v, passes %v:\n%s", err, ok, &out)
			}
			// Six columns take the one attack, the four of gRPC the other.
			if n := strings.Count(out.String(), "BenchmarkAttack/"); n != 3*(6+4) {
				t.Errorf("%d results, want %d:\n%s", n, 3*(6+4), &out)
			}
			fails := 0
			if tc.says != "" {
				fails = 1
			}
			if n := strings.Count(out.String(), "# FAIL"); n != fails || !strings.Contains(out.String(), tc.says) {
				t.Errorf("%d that fail, want %d with %q:\n%s", n, fails, tc.says, &out)
			}
		})
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
