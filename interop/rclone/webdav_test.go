package rclone

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/internal/rig"
)

// TestLitmus runs litmus, a suite for WebDAV servers, on "rclone serve webdav" of Tarn's backend, and beside it of rclone's backends smb and
// local, on the same server's share and on a directory. What passes with one of these passes with Tarn's.
func TestLitmus(t *testing.T) {
	leftout.Need(t, "litmus", "litmus")
	modes := rig.Modes()[:1]
	if os.Getenv("TARN_LONG") == "1" {
		modes = rig.Modes()
	}
	binary := map[variant]string{}
	for _, v := range []variant{shipped, tarnsmb} {
		binary[v] = shop(t).build(t, v, program, "build")
	}
	for _, mode := range modes {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := startServer(t, mode)
			own := runLitmus(t, serveRemote(t, srv.env(tarnsmb), srv.share, binary[tarnsmb], "webdav"))
			others := map[string]outcomes{
				"smb":   runLitmus(t, serveRemote(t, srv.env(shipped), srv.share, binary[shipped], "webdav")),
				"local": runLitmus(t, serveRemote(t, srv.env(tarnsmb), t.TempDir(), binary[tarnsmb], "webdav")),
			}
			for name, other := range others {
				for test, outcome := range other {
					if outcome == "pass" && own[test] != "pass" {
						t.Errorf("%s: %q with tarnsmb, and passes with %s", test, own[test], name)
					}
				}
			}
			if len(own) < 80 {
				t.Errorf("litmus ran %d tests", len(own))
			}
			t.Logf("tests that passed, with the others:\ntarnsmb %v\nsmb %v\nlocal %v", own, others["smb"], others["local"])
		})
	}
}

// outcomes are those of litmus's tests, by suite and name.
type outcomes map[string]string

// String has how many tests passed of each suite, and the names of the others.
func (o outcomes) String() string {
	passed, others := map[string]int{}, []string{}
	for test, outcome := range o {
		suite, _, _ := strings.Cut(test, "/")
		if passed[suite] += 0; outcome == "pass" {
			passed[suite]++
		} else {
			others = append(others, test+" "+outcome)
		}
	}
	var counts []string
	for _, suite := range slices.Sorted(maps.Keys(passed)) {
		counts = append(counts, fmt.Sprint(suite, " ", passed[suite]))
	}
	slices.Sort(others)
	return strings.Join(append(counts, others...), ", ")
}

// litmusLine matches the name of a suite that begins, and the name and outcome of a test. The outcome of a test with warnings is on a line
// of its own.
var litmusLine = regexp.MustCompile("(?m)-> running `(\\w+)'|\r *(\\d+\\. \\w+)\\.*|\\b(pass|FAIL|SKIPPED)\\b")

// runLitmus runs the suite on the server at url.
func runLitmus(t *testing.T, url string) outcomes {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "litmus", "-k", url)
	cmd.Dir = t.TempDir() // it writes logs
	out, err := cmd.CombinedOutput()
	o := outcomes{}
	var suite, test string
	for _, m := range litmusLine.FindAllStringSubmatch(string(out), -1) {
		switch {
		case m[1] != "":
			suite = m[1]
		case m[2] != "":
			test = suite + "/" + m[2]
		case o[test] == "":
			o[test] = strings.ToLower(m[3])
		}
	}
	if err != nil && len(o) == 0 {
		t.Fatalf("%v\n%s", err, out)
	}
	return o
}
