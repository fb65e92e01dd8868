package tarn

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func leakHere() Misuse  { return leakOfCaller() }
func leakThere() Misuse { return leakOfCaller() }

func leakOfCaller() Misuse {
	stack := make(Stack, 8)
	return Misuse{Kind: Leak, Size: 4096, Pool: "frames", Acquired: stack[:runtime.Callers(2, stack)]}
}

// Without PoolConfig.Report a leak that checks tracked names the line that took the reference: the first of a place
// with its stack, then one line for the second, the fourth and so on of that place.
func TestReportsNameThePlace(t *testing.T) {
	var r reporter
	var out strings.Builder
	for range 5 {
		r.print(&out, leakHere())
	}
	r.print(&out, leakThere())
	text := out.String()
	for want, times := range map[string]int{
		"tarn: leak: ":     4,
		"acquired at:\n":   2,
		".leakHere\n\t\t":  1,
		".leakThere\n\t\t": 1,
		"acquired at tarn.leakHere checks_internal_test": 2,
		"(2 of these so far)\n":                          1,
		"(4 of these so far)\n":                          1,
	} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("%q is %d times in what was printed, not %d:\n%s", want, n, times, text)
		}
	}
	if strings.Contains(text, "runtime.goexit") {
		t.Errorf("the runtime's own frames are printed:\n%s", text)
	}
}

// Misuse that checks did not track is counted by its kind.
func TestReportsWithoutStacks(t *testing.T) {
	var r reporter
	var out strings.Builder
	for i := range 5 {
		r.print(&out, Misuse{Kind: ForeignFree, Op: "Put", Size: 100 + i})
	}
	if n := strings.Count(out.String(), "\n"); n != 3 || !strings.Contains(out.String(), "(4 of these so far)") {
		t.Errorf("%d lines:\n%s", n, out.String())
	}
}

// The places that are told apart are bounded. The misuses of a place beyond them are counted by their kind alone:
// the first is still printed with its stack, the lines after it name no place, because others are counted there, too.
func TestReportsOfManyPlacesAreBounded(t *testing.T) {
	r := reporter{places: make(map[place]*MisuseCount)}
	for i := range maxPlaces {
		r.places[place{kind: Leak, acquired: fmt.Sprintf("invented.Get file.go:%d", i)}] = &MisuseCount{Kind: Leak, Count: 1}
	}
	var out strings.Builder
	for range 5 {
		r.print(&out, leakHere())
	}
	if len(r.places) != maxPlaces+1 {
		t.Errorf("%d places are kept, not %d and one for those that are not distinguished", len(r.places), maxPlaces)
	}
	text := out.String()
	for want, times := range map[string]int{
		"tarn: leak: ":              3,
		".leakHere\n\t\t":           1,
		"acquired at tarn.leakHere": 0,
		"(2 of these so far)\n":     1,
		"(4 of these so far)\n":     1,
	} {
		if n := strings.Count(text, want); n != times {
			t.Errorf("%q is %d times in what was printed, not %d:\n%s", want, n, times, text)
		}
	}
}

// Without the paths of source files (-trimpath) a program's own modules are told from the standard library by
// their names, which the build information lists.
func TestStandardPath(t *testing.T) {
	modules := []string{"myservice", "corp/net"}
	for function, want := range map[string]bool{
		"runtime.goexit":                  true,
		"net/http.(*conn).serve":          true,
		"io.Copy":                         true,
		"main.main":                       false,
		"myservice.Run":                   false,
		"myservice/store.(*File).Read":    false,
		"myservices.Run":                  true,
		"corp/net/http.Serve":             false,
		"example.com/program.F":           false,
		"github.com/tarn-go/tarn/rpc.F.f": false,
	} {
		if got := standardPath(function, modules); got != want {
			t.Errorf("standardPath(%q) = %v", function, got)
		}
	}
}
