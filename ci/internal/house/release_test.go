package house_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// small is a repository with modules like this one's: rpc requires the root, cmd/tarn both. None requires anything else.
var small = map[string]string{
	"go.mod":            "module github.com/tarn-go/tarn\n\ngo 1.26.0\n",
	"tarn.go":           "package tarn\n\nconst Size = 1\n",
	"rpc/go.mod":        "module github.com/tarn-go/tarn/rpc\n\ngo 1.26.0\n\nreplace github.com/tarn-go/tarn => ..\n\nrequire github.com/tarn-go/tarn v0.0.0\n",
	"rpc/rpc.go":        "package rpc\n\nimport \"github.com/tarn-go/tarn\"\n\nconst Size = tarn.Size\n",
	"cmd/tarn/go.mod":   "module github.com/tarn-go/tarn/cmd/tarn\n\ngo 1.26.0\n\nreplace (\n\tgithub.com/tarn-go/tarn => ../..\n\tgithub.com/tarn-go/tarn/rpc => ../../rpc\n)\n\nrequire (\n\tgithub.com/tarn-go/tarn v0.0.0\n\tgithub.com/tarn-go/tarn/rpc v0.0.0\n)\n",
	"cmd/tarn/main.go":  "package main\n\nimport (\n\t\"github.com/tarn-go/tarn\"\n\t\"github.com/tarn-go/tarn/rpc\"\n)\n\nfunc main() { _ = tarn.Size + rpc.Size }\n",
	"examples/go.mod":   "module github.com/tarn-go/tarn/examples\n\ngo 1.26.0\n",
	"bench/go.mod":      "module github.com/tarn-go/tarn/bench\n\ngo 1.26.0\n",
	"bench/go.work":     "go 1.26.0\n\nuse .\n",
	"ci/tools/go.mod":   "module github.com/tarn-go/tarn/ci/tools\n\ngo 1.26.0\n",
	"ci/tools/tools.go": "package tools\n",
	"examples/doc.go":   "package examples\n",
	"bench/doc.go":      "package bench\n",
}

// gitEnv is the environment for git in the test's repository. A git hook that runs the tests has GIT_DIR and GIT_INDEX_FILE
// in its environment, with which git would write to the hook's repository instead. Each call returns a new slice.
func gitEnv(more ...string) []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	return append(append(env, "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull), more...)
}

// interrupting is a git that is terminated while it tags: before the tag is made, or after.
const interrupting = `#!/bin/sh
[ "$1 $2" = "tag -a" ] || exec "$REAL_GIT" "$@"
[ "$WHEN" = before ] || "$REAL_GIT" "$@"
kill -TERM $PPID
[ "$WHEN" = after ]
`

// A release tags each published module with the same version and requires that version of the others; a user who
// installs the command gets it. A version that has tags is refused, and a release that fails or is terminated leaves none.
func TestRelease(t *testing.T) {
	root := t.TempDir()
	hooks := filepath.Join(t.TempDir(), "hooks")
	t.Setenv("GIT_DIR", hooks)
	t.Setenv("GIT_INDEX_FILE", filepath.Join(hooks, "index"))
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		cmd.Env = gitEnv()
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	write := func(name, text string) { t.Helper(); writeProgram(t, filepath.Join(root, name), text) }
	release := func(version string, env ...string) (string, error) {
		cmd := exec.Command(filepath.Join(root, "ci/release.sh"), version)
		cmd.Env = gitEnv(append([]string{"GOFLAGS="}, env...)...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for name, text := range small {
		write(name, text)
	}
	for _, script := range []string{"ci/release.sh", "ci/modules.sh", "ci/trees.sh"} {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		write(script, string(text))
	}
	git("init", "-q", "-b", "main")
	git("config", "user.name", "tarn")
	git("config", "user.email", "tarn@example.com")
	git("add", "-A")
	git("commit", "-qm", "modules")
	before := git("rev-parse", "HEAD")

	out, err := release("v0.1.0")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if got, want := git("tag", "-l"), "cmd/tarn/v0.1.0\nrpc/v0.1.0\nv0.1.0"; got != want {
		t.Errorf("tags %q, want %q", got, want)
	}
	if !strings.HasSuffix(out, "git push --atomic origin v0.1.0 rpc/v0.1.0 cmd/tarn/v0.1.0\n") {
		t.Errorf("printed\n%s", out)
	}
	mod := git("show", "cmd/tarn/v0.1.0:cmd/tarn/go.mod")
	if strings.Contains(mod, "replace") || strings.Count(mod, " v0.1.0") != 2 {
		t.Errorf("the command's go.mod is\n%s", mod)
	}
	if sum := git("show", "cmd/tarn/v0.1.0:cmd/tarn/go.sum"); strings.Count(sum, " v0.1.0") != 4 {
		t.Errorf("the command's go.sum is\n%s", sum)
	}
	if git("rev-parse", "HEAD") != before || git("status", "--porcelain") != "" || strings.Count(git("worktree", "list"), "\n") != 0 {
		t.Error("the branch, the work tree or the list of work trees has changed")
	}

	// The binaries are those of their modules' tags: a version without one of these has none.
	clone := filepath.Join(t.TempDir(), "clone")
	git("clone", "-q", root, clone)
	trees := exec.Command(filepath.Join(clone, "ci/trees.sh"), "v0.1.0")
	trees.Env = gitEnv()
	if out, err := trees.CombinedOutput(); err == nil || !strings.Contains(string(out), "refs/tags/vet/v0.1.0") {
		t.Errorf("trees of a version without a tag of vet: %v\n%s", err, out)
	}
	built, err := os.ReadFile(filepath.Join(clone, "bin/release/tree/tarn/cmd/tarn/go.mod"))
	if err != nil || bytes.Contains(built, []byte("replace")) {
		t.Errorf("the command is built from %s %v", built, err)
	}

	if out, err := release("v0.1.0"); err == nil || !strings.Contains(out, "git tag -d cmd/tarn/v0.1.0 rpc/v0.1.0 v0.1.0") {
		t.Errorf("again: %v\n%s", err, out)
	}
	if out, err := release("0.2"); err == nil || !strings.Contains(out, "no semantic version") {
		t.Errorf("0.2: %v\n%s", err, out)
	}

	write("rpc/rpc.go", "package rpc\n\nconst Size = missing\n")
	if out, err := release("v0.2.0"); err == nil || !strings.Contains(out, "has changes") {
		t.Errorf("with changes: %v\n%s", err, out)
	}
	git("commit", "-qam", "a module that does not compile")
	if out, err := release("v0.2.0"); err == nil || !strings.Contains(out, "undefined: missing") {
		t.Errorf("a module that does not compile: %v\n%s", err, out)
	}
	if tags := git("tag", "-l", "*v0.2.0"); tags != "" {
		t.Errorf("left: %s", tags)
	}
	write("rpc/rpc.go", small["rpc/rpc.go"])
	git("commit", "-qam", "it compiles")
	if out, err := release("v0.2.0"); err != nil {
		t.Errorf("after a release that failed: %v\n%s", err, out)
	}

	programs := t.TempDir()
	if err := os.WriteFile(filepath.Join(programs, "git"), []byte(interrupting), 0o755); err != nil {
		t.Fatal(err)
	}
	installed, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"before", "after"} {
		temporary := t.TempDir()
		out, err := release("v0.3.0", "TMPDIR="+temporary, "PATH="+programs+":"+os.Getenv("PATH"), "REAL_GIT="+installed, "WHEN="+when)
		if err == nil || strings.Contains(out, "git push") {
			t.Errorf("terminated %s a tag was made: %v\n%s", when, err, out)
		}
		if tags := git("tag", "-l", "*v0.3.0"); tags != "" {
			t.Errorf("terminated %s a tag was made, it leaves %s\n%s", when, tags, out)
			git("tag", "-d", "v0.3.0")
		}
		left, err := os.ReadDir(temporary)
		if err != nil || len(left) != 0 || strings.Contains(git("worktree", "list"), "\n") {
			t.Errorf("terminated %s a tag was made, it leaves %v, %v\n%s", when, left, err, out)
		}
	}
	if _, err := os.Stat(hooks); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("git has written to the repository of the environment: %v", err)
	}
}

// The licences in an archive are those of the modules that the binary is made of on any platform, with those of the folders of code from
// elsewhere that it has; a module without one fails the release.
func TestLicenses(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) { t.Helper(); writeProgram(t, filepath.Join(root, name), text) }
	licenses := func() (string, error) {
		cmd := exec.Command(filepath.Join(root, "ci/licenses.sh"))
		cmd.Env = append(os.Environ(), "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	script, err := os.ReadFile("ci/licenses.sh")
	if err != nil {
		t.Fatal(err)
	}
	write("ci/licenses.sh", string(script))
	const tree = "bin/release/tree/"
	for folder, module := range map[string]string{"tarn/cmd/tarn": "cmd/tarn", "tarnvet/vet/cmd/tarnvet": "vet", "rclone-tarn/smb/rclone/cmd/rclone-tarn": "smb/rclone"} {
		write(tree+folder+"/go.mod", "module github.com/tarn-go/tarn/"+module+"\n\ngo 1.26.0\n")
		write(tree+folder+"/main.go", "package main\n\nfunc main() {}\n")
	}
	write(tree+"tarn/cmd/tarn/go.mod", "module github.com/tarn-go/tarn/cmd/tarn\n\ngo 1.26.0\n\nreplace example.com/used => ../../used\n\nrequire example.com/used v1.2.3\n")
	write(tree+"tarn/cmd/tarn/main_windows_arm64.go", "package main\n\nimport _ \"example.com/used/third_party/from/elsewhere\"\n")
	for name, text := range map[string]string{
		"go.mod":                             "module example.com/used\n\ngo 1.26.0\n",
		"LICENSE":                            "of used",
		"license.go":                         "package used // no licence\n",
		"third_party/from/COPYING":           "of from",
		"third_party/from/elsewhere/license": "of elsewhere",
		"third_party/from/elsewhere/e.go":    "package elsewhere\n",
		"unused/LICENSE":                     "of unused",
		"unused/u.go":                        "package unused\n",
	} {
		write(tree+"tarn/used/"+name, text)
	}
	if out, err := licenses(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := os.ReadFile(filepath.Join(root, "bin/release/licenses/tarn/LICENSES.txt"))
	want := `
======== example.com/used v1.2.3: LICENSE

of used
======== example.com/used v1.2.3: third_party/from/COPYING

of from
======== example.com/used v1.2.3: third_party/from/elsewhere/license

of elsewhere`
	if _, text, _ := bytes.Cut(got, []byte("\n======== example.com")); err != nil || "\n======== example.com"+string(text) != want {
		t.Errorf("%v; the list is\n%s", err, got)
	}
	if got, err := os.ReadFile(filepath.Join(root, "bin/release/licenses/tarnvet/LICENSES.txt")); err != nil || !bytes.Contains(got, []byte("======== Go go")) || bytes.Contains(got, []byte("example.com")) {
		t.Errorf("%v; of a command of no other module the list is\n%s", err, got)
	}

	if err := os.Remove(filepath.Join(root, tree, "tarn/used/LICENSE")); err != nil {
		t.Fatal(err)
	}
	if out, err := licenses(); err == nil || !strings.Contains(out, "example.com/used v1.2.3 has no licence") {
		t.Errorf("a module without a licence: %v\n%s", err, out)
	}
}

// writeProgram writes a file that may be run, and makes the folders above it.
func writeProgram(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}
