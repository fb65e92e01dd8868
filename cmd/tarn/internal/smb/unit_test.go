package smb

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

func TestParseLocation(t *testing.T) {
	for in, want := range map[string]location{
		"smb://host":                          {addr: "host:445", path: "."},
		"smb://host/":                         {addr: "host:445", path: "."},
		"smb://u@host:4450/share":             {user: "u", addr: "host:4450", share: "share", path: "."},
		"smb://D;u@host/s/a/b/":               {user: "u", domain: "D", addr: "host:445", share: "s", path: "a/b"},
		`smb://D%5Cu@[::1]/s/a%20b`:           {user: "u", domain: "D", addr: "[::1]:445", share: "s", path: "a b"},
		"smb://host/s/what is #1?":            {addr: "host:445", share: "s", path: "what is #1?"},
		"smb://host/s/a/../../../../b":        {addr: "host:445", share: "s", path: "b"},
		"smb://host/s//x//y":                  {addr: "host:445", share: "s", path: "x/y"},
		"smb://u%40example.org@host/s/%E6%97": {user: "u@example.org", addr: "host:445", share: "s", path: "\xe6\x97"},
	} {
		if got, err := parseLocation(in); err != nil || got != want {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, bad := range []string{"host/share", "smb:///share", "smb://u:p@h/s", "smb://h/100%", "http://h/s", ""} {
		if l, err := parseLocation(bad); err == nil {
			t.Errorf("%s: parsed as %+v", bad, l)
		}
	}
}

func TestLocationString(t *testing.T) {
	for in, want := range map[string]string{
		"smb://u@host/s/a/": "smb://host/s/a", "smb://h:1/s": "smb://h:1/s", "smb://h": "smb://h",
		"smb://h/s/a%2520b": "smb://h/s/a%2520b", "smb://h/s/100%25 #1?.txt": "smb://h/s/100%25 #1?.txt", // as "smb://h/s/a%20b" is another file
	} {
		l, err := parseLocation(in)
		if l.String() != want {
			t.Errorf("%s: %s, want %s", in, l, want)
		}
		l.user = ""
		if again, err2 := parseLocation(l.String()); err != nil || err2 != nil || again != l {
			t.Errorf("%s: %+v, shown: %+v, %v, %v", in, l, again, err, err2)
		}
	}
}

// evilTree lists the names it is given, as a hostile server could.
type evilTree struct {
	tree
	files fstest.MapFS
	names []string
}

func (e *evilTree) Lstat(name string) (fs.FileInfo, error) { return e.files.Stat(name) }
func (e *evilTree) label(name string) string               { return "evil/" + name }
func (e *evilTree) ReadDir(string) ([]fs.DirEntry, error) {
	entries, err := e.files.ReadDir("d")
	for i, n := range e.names {
		entries = append(entries, renamed{entries[i], n})
	}
	return entries, err
}

type renamed struct {
	fs.DirEntry
	name string
}

func (r renamed) Name() string { return r.name }

func TestHostileNames(t *testing.T) {
	for _, name := range []string{"..", "../evil", `..\evil`, "/etc/passwd", "a/b", "", ".", "x\x00y"} {
		from := &evilTree{files: fstest.MapFS{"d/innocent": {Data: []byte("x")}}, names: []string{name}}
		dir := t.TempDir()
		to, err := openLocal(dir, ".")
		if err != nil {
			t.Fatal(err)
		}
		var said bytes.Buffer
		a := newApp("get", options{recursive: true}, cli.Streams{Out: &bytes.Buffer{}, Err: &said})
		var p plan
		err = a.add(context.Background(), &p, route{from, to.tree, "d", "copy"})
		to.close()
		if err != nil || p.skipped != 1 || len(p.jobs) != 1 || p.jobs[0].toName != "copy/innocent" || !strings.Contains(said.String(), "left out") {
			t.Errorf("%q: %v, %d left out, %d to copy, said %q", name, err, p.skipped, len(p.jobs), &said)
		}
	}
}

// Writes do not leave the directory by a symbolic link in it either.
func TestLocalStaysInside(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	if err := os.Symlink(outside, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	p, err := openLocal(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	if f, err := p.tree.CreatePart("link/file", 0o666); err == nil {
		f.Close()
		t.Error("wrote outside")
	}
	if err := p.tree.Mkdir("link/dir"); err == nil {
		t.Error("made a directory outside")
	}
}

func TestMeterText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		a := &app{std: cli.Streams{Err: &out}}
		m := a.startMeter(&plan{total: 30 << 20, jobs: []*job{{}}}, "copy")
		m.begun = m.begun.Add(-lineEvery)
		m.add(10 << 20)
		a.mu.Lock()
		m.show() // the first line
		a.mu.Unlock()
		a.stopMeter(m)
		if got, want := out.String(), " 33%  10.0 MiB of 30.0 MiB  1.0 MiB/s  0:20 left\ncopied 0 of 1 files, 10.0 MiB in 0:10, 1.0 MiB/s\n"; got != want {
			t.Errorf("%q, want %q", got, want)
		}
	})
	if got := (&meter{}).text(); !strings.HasPrefix(got, "100%") {
		t.Errorf("nothing to do: %q", got)
	}
	for d, want := range map[time.Duration]string{0: "0:00", 61 * time.Second: "1:01", 3*time.Hour + 62*time.Second: "3:01:02"} {
		if got := clock(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1536: "1.5 KiB", 1 << 50: "1.0 PiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	if got := printable("a\x1b[31mb\n\u009bc日"); got != "a?[31mb??c日" {
		t.Errorf("%q", got)
	}
}

// JSON has no control character, which a terminal might obey, and the same names when it is read.
func TestJSONHasNoControlCharacters(t *testing.T) {
	want := shareObject{Share: "a\x1b[31m\x7f\u0080\u009b日", Comment: "\u009f\u00a0"}
	var out bytes.Buffer
	writeJSON(&out, want)
	text := strings.TrimSuffix(out.String(), "\n")
	if printable(text) != text {
		t.Errorf("%q", text)
	}
	var got shareObject
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != want {
		t.Errorf("%s: %+v, %v", text, got, err)
	}
}

func TestNoPassword(t *testing.T) {
	old, had := os.LookupEnv("SMB_PASSWORD")
	os.Unsetenv("SMB_PASSWORD")
	if had {
		defer os.Setenv("SMB_PASSWORD", old)
	}
	if r := run(t.Context(), "ls", "smb://u@127.0.0.1:1/s"); r.status != cli.Failed || !strings.Contains(r.err, "no password") {
		t.Errorf("%+v", r)
	}
}
