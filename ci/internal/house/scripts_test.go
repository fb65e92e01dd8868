package house_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
)

// TestShellScripts: shellcheck finds nothing in the repository's scripts.
func TestShellScripts(t *testing.T) {
	leftout.Need(t, "shellcheck", "shellcheck")
	list, err := exec.Command("git", "grep", "-lE", `^#!.*\b(ba)?sh$`).Output()
	if err != nil {
		t.Fatal(err)
	}
	scripts := strings.Fields(string(list))
	if len(scripts) < 6 {
		t.Fatalf("only %v", scripts)
	}
	if out, err := exec.Command("shellcheck", scripts...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestVulnerabilities: make vulnerabilities fails for an advisory that is reached in a module with a version that mends it, and for whatever
// it cannot read. What is reached it asks where an advisory is of a module, and what it cannot read. It has another database than vuln.go.dev
// where that cannot be reached, and is left out where neither can.
func TestVulnerabilities(t *testing.T) {
	const (
		std     = "Vulnerability #1: GO-1\n    x\n  Standard library\n    Found in: net@go1.26\n    Fixed in: net@go1.26.9\n"
		unfixed = "Vulnerability #2: GO-2\n  Module: a.example\n    Found in: a.example@v1.0.0\n    Fixed in: N/A\n"
		raised  = "Vulnerability #3: GO-3\n  Module: b.example\n    Found in: b.example@v1.0.0\n    Fixed in: b.example@v1.1.0\n"
		// What is found in packages that are imported.
		goOnly   = "3 " + std
		required = "3 " + raised
		both     = goOnly + "\n" + raised
		inOne    = goOnly + "  Module: b.example\n    Found in: b.example@v1.0.0\n    Fixed in: b.example@v1.1.0\n"
	)
	for _, test := range []struct {
		name, curl, proxy, imported, found, code string
		fails                                    bool
		want                                     string
	}{
		{"no advisory of what is imported", "0", "0", "0 ", raised, "3", false, "govulncheck .\n"},
		{"Go's alone", "0", "0", goOnly, raised, "3", false, "govulncheck .\nthis machine's Go has, in packages that are imported:\n  GO-1 net@go1.26, mended in net@go1.26.9\n"},
		{"Go's and a module's", "0", "0", both, raised, "3", true, raised},
		{"Go's and a module's in one", "0", "0", inOne, raised, "3", true, raised},
		{"another format of what is imported", "0", "0", "3 GO-1", raised, "3", true, raised},
		{"the first scan failed", "0", "0", "1 " + goOnly[2:], raised, "3", true, raised},
		{"nothing", "0", "0", required, "No vulnerabilities found.", "0", false, "-db https://vuln.go.dev ./...\nNo vulnerabilities"},
		{"the standard library, and no mended version", "0", "0", required, std + unfixed, "3", false, std + unfixed},
		{"a module", "0", "0", required, std + raised + unfixed, "3", true, raised},
		{"a module and the standard library in one", "0", "0", required, std + "\n" + strings.SplitAfterN(raised, "\n", 2)[1], "3", true, "b.example"},
		{"another format", "0", "0", required, "GO-1", "3", true, "GO-1"},
		{"failed", "0", "0", required, std, "1", true, std},
		{"the proxy", "7", "0", required, std, "3", false, "golang.org/x/vulndb of 2026-11-05\ngovulncheck .\n-db file:///db/data/osv ./..."},
		{"the proxy, a module", "7", "0", required, raised, "3", true, raised},
		{"neither", "7", "1", required, raised, "3", false, "neither vuln.go.dev nor golang.org/x/vulndb can be reached"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := t.TempDir()
			files := map[string]string{
				"go.mod":          "module m.example\n",
				"path/curl":       "#!/bin/sh\nexit $CURL\n",
				"path/go":         "#!/bin/sh\n[ \"$1\" != mod ] || { echo '\"Version\": \"v0.0.0-20261105234957-e22db6528018\",\n\"Dir\": \"/db\",'; exit $PROXY; }\n",
				"bin/govulncheck": "#!/bin/sh\necho \"$@\"\ncase $* in *-scan\\ package*) echo \"${IMPORTED#* }\"; exit \"${IMPORTED%% *}\" ;; esac\necho \"$FOUND\"\nexit $CODE\n",
			}
			for _, script := range []string{"ci/vulnerabilities.sh", "ci/modules.sh"} {
				text, err := os.ReadFile(script)
				if err != nil {
					t.Fatal(err)
				}
				files[script] = string(text)
			}
			for name, text := range files {
				writeProgram(t, filepath.Join(root, name), text)
			}
			for _, args := range [][]string{{"init", "-q"}, {"add", "go.mod"}} {
				git := exec.Command("git", args...)
				git.Dir, git.Env = root, gitEnv()
				if out, err := git.CombinedOutput(); err != nil {
					t.Fatalf("git %v: %v\n%s", args, err, out)
				}
			}
			cmd := exec.Command(filepath.Join(root, "ci/vulnerabilities.sh"), "govulncheck@v1")
			cmd.Env = gitEnv("PATH="+filepath.Join(root, "path")+":"+os.Getenv("PATH"), "CURL="+test.curl, "PROXY="+test.proxy, "IMPORTED="+test.imported, "FOUND="+test.found, "CODE="+test.code, "TARN_LEFT_OUT="+os.DevNull)
			out, err := cmd.CombinedOutput()
			if (err != nil) != test.fails || !strings.Contains(string(out), test.want) {
				t.Errorf("%v, want failure %v and %q; printed\n%s", err, test.fails, test.want, out)
			}
		})
	}
}

// TestEach: ci/each.sh makes every target, those beside another one after the other with their output behind its, goes on after a failure,
// fails if one did, and says what each took.
func TestEach(t *testing.T) {
	const program = "#!/bin/sh\n[ \"$2\" != busy ] || { i=0; while [ $i -lt 500000 ]; do i=$((i+1)); done; }\necho \"made $2\"\n[ \"$2\" != bad ]\n"
	fake := filepath.Join(t.TempDir(), "make")
	writeProgram(t, fake, program)
	for _, test := range []struct {
		targets, failed string
		order           []string
	}{
		{"busy+a+b c", "", []string{"busy", "a", "b", "c"}},
		{"bad a", "bad", []string{"bad", "a"}},
		{"a+bad+b c", "bad", []string{"a", "bad", "b", "c"}},
	} {
		cmd := exec.Command("ci/each.sh", strings.Fields(test.targets)...)
		cmd.Env = append(os.Environ(), "MAKE="+fake, "TARN_LEFT_OUT="+filepath.Join(t.TempDir(), "left"))
		out, err := cmd.CombinedOutput()
		rest := string(out)
		for _, name := range test.order {
			_, after, found := strings.Cut(rest, "== "+name+"\nmade "+name+"\n")
			if !found {
				t.Errorf("%s: %s is missing or out of order in\n%s", test.targets, name, out)
			}
			rest = after
		}
		for _, name := range test.order {
			if !regexp.MustCompile(` ` + name + ` \d+s \(\d+s\)`).MatchString(rest) {
				t.Errorf("%s: no time of %s in %q", test.targets, name, rest)
			}
		}
		if _, failed, _ := strings.Cut(rest, "FAILED: "); (err != nil) != (test.failed != "") || strings.TrimSpace(failed) != test.failed {
			t.Errorf("%s: %v, failed %q, want %q", test.targets, err, failed, test.failed)
		}
	}
}
