package tarn

import "testing"

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
