package tune

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/debug"
	"github.com/tarn-go/tarn/sizing"
)

// tune runs the command and returns its status and streams.
func tune(t *testing.T, stdin string, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e bytes.Buffer
	status = Run(context.Background(), args, cli.Streams{In: strings.NewReader(stdin), Out: &o, Err: &e})
	return status, o.String(), e.String()
}

func sample(t *testing.T) string {
	t.Helper()
	data, err := json.Marshal(sizing.Histogram{
		Name: "sample", Every: 1, Peak: 10 << 20, Classes: []int{1024, 2048, 65536},
		Sizes: []sizing.SizeCount{{Size: 1100, Count: 900}, {Size: 33000, Count: 100}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestTuneHistogram(t *testing.T) {
	file := filepath.Join(t.TempDir(), "h.json")
	if err := os.WriteFile(file, []byte(sample(t)), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-k", "2", file}, {file, "-k", "2"}, {"-", "-k=2"}} {
		status, out, errs := tune(t, sample(t), args...)
		if status != cli.OK || errs != "" {
			t.Fatalf("%v: %d %s", args, status, errs)
		}
		for _, want := range []string{"sample: 1k gets recorded, peak 10 MiB", "now     3 classes, waste 49%", "best    2 classes, waste 1.1%", "Take the classes proposed: they waste less.", "about 4.8 MiB less at the recorded peak", "Returns diminish beyond", "Classes: []int{1152, 33024},"} {
			if !strings.Contains(out, want) {
				t.Errorf("%v: no %q in\n%s", args, want, out)
			}
		}
	}
}

func TestTuneTraces(t *testing.T) {
	files, err := filepath.Glob("../../../../sizing/testdata/traces/*.gz")
	if err != nil || len(files) < 3 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		status, out, errs := tune(t, "", file, "-k", "24")
		if !strings.Contains(out, " 24 classes, waste ") {
			t.Errorf("%s: not the number of classes that was asked for", file)
		}
		if status != cli.OK || !strings.Contains(out, "  Replayed") {
			t.Errorf("%s: %d %s%s", file, status, out, errs)
		}
		t.Log(out)
	}
}

// There is one verdict, by one measure. A replay prefers the other ladder here, and says that it is not counted.
func TestTuneVerdict(t *testing.T) {
	const trace = "../../../../sizing/testdata/traces/smb.trace.gz"
	for _, tc := range []struct {
		k    string
		want []string
	}{
		{"0", []string{"Keep the classes in force: they waste little", "-k N asks", "  Replayed: at most"}},
		{"24", []string{"  k=24   24 classes", "Keep the classes in force: those proposed waste more", "  Replayed, which the advice above does not count: at most 130 KiB in use at a time now, 128 KiB with those proposed"}},
		{"40", []string{"  best   40 classes", "Take the classes proposed: they waste less", "  Replayed, which the advice above does not count"}},
	} {
		report := filepath.Join(t.TempDir(), "report.html")
		status, out, errs := tune(t, "", trace, "-k", tc.k, "-o", report)
		page, err := os.ReadFile(report)
		if status != cli.OK || err != nil {
			t.Fatal(status, errs, err)
		}
		for _, want := range tc.want {
			if !strings.Contains(out, want) {
				t.Errorf("-k %s: no %q in\n%s", tc.k, want, out)
			}
		}
		for where, text := range map[string]string{"text": out, "report": string(page)} {
			if n := strings.Count(text, "Keep the classes") + strings.Count(text, "Take the classes"); n != 1 {
				t.Errorf("-k %s: %d verdicts in the %s", tc.k, n, where)
			}
			if strings.Contains(text, "at the recorded peak") || strings.Contains(text, "saves") {
				t.Errorf("-k %s: the %s says what is saved by another measure:\n%s", tc.k, where, out)
			}
		}
	}
}

// The classes proposed may be better because they pool more requests while they waste more. Nothing is saved then: neither
// the text nor the report says so, and the report does not show the larger waste as good.
func TestTuneOfClassesThatPoolMore(t *testing.T) {
	data, err := json.Marshal(sizing.Histogram{
		Name: "sample", Every: 1, Peak: 10 << 20, Classes: []int{1152, 3008},
		Sizes: []sizing.SizeCount{{Size: 1100, Count: 1000}, {Size: 3000, Count: 500}, {Size: 9000, Count: 500}},
	})
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.html")
	status, out, errs := tune(t, string(data), "-", "-k", "1", "-o", report)
	page, err := os.ReadFile(report)
	if status != cli.OK || err != nil {
		t.Fatal(status, errs, err)
	}
	for where, text := range map[string]string{"text": out, "report": string(page)} {
		if !strings.Contains(text, "Take the classes proposed: they pool requests that are above the largest class in force.") {
			t.Errorf("the %s has another verdict:\n%s", where, out)
		}
		if strings.Contains(text, "at the recorded peak") {
			t.Errorf("the %s says what is saved:\n%s", where, out)
		}
	}
	if strings.Contains(string(page), `<b class="good">`) {
		t.Error("the report shows a larger waste as good")
	}
}

// Only where no number of classes was asked for is there a hint to ask for one.
func TestTuneHint(t *testing.T) {
	const h = `{"classes":[3008,9024],"sizes":[{"size":1100,"count":1000},{"size":3000,"count":500},{"size":9000,"count":500}]}`
	const hint = "-k N asks for the best N."
	status, out, errs := tune(t, h, "-", "-k", "2")
	if status != cli.OK || !strings.Contains(out, "Keep the classes in force: ") || strings.Contains(out, hint) {
		t.Errorf("-k 2: %d %s%s", status, out, errs)
	}
	const little = `{"classes":[1152,3008,9024],"sizes":[{"size":1100,"count":1000},{"size":3000,"count":500},{"size":9000,"count":500}]}`
	status, out, errs = tune(t, little, "-")
	if status != cli.OK || !strings.Contains(out, "Keep the classes in force: ") || !strings.Contains(out, hint) {
		t.Errorf("without -k: %d %s%s", status, out, errs)
	}
}

// A ladder of one class is "1 class".
func TestTuneOneClass(t *testing.T) {
	status, out, errs := tune(t, `{"classes":[9024],"sizes":[{"size":1100,"count":1000},{"size":1101,"count":500}]}`, "-", "-k", "1")
	if status != cli.OK || strings.Count(out, "  1 class,") != 2 || strings.Contains(out, "1 classes") {
		t.Errorf("%d %s%s", status, out, errs)
	}
}

func TestTuneService(t *testing.T) {
	one, two := servicePool(t, "one"), servicePool(t, "two")
	server := httptest.NewServer(debug.Handler(one, two))
	defer server.Close()
	report := filepath.Join(t.TempDir(), "report.html")
	status, out, errs := tune(t, "", server.URL+"/debug/tarn/", "-o", report)
	if status != cli.OK || !strings.Contains(out, "one: ") || !strings.Contains(out, "two: ") {
		t.Fatalf("%d %s%s", status, out, errs)
	}
	page, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<h2>one</h2>", "<h2>two</h2>", `<svg class="sizes"`, `<svg class="curve"`, "default-src &#39;none&#39;"} {
		if !strings.Contains(string(page), want) && !strings.Contains(string(page), strings.ReplaceAll(want, "&#39;", "'")) {
			t.Errorf("the report has no %s", want)
		}
	}
	if strings.Contains(string(page), "<script") || strings.Contains(string(page), "http://") {
		t.Error("the report has a script or loads something")
	}
	status, out, _ = tune(t, "", server.URL+"/json", "-pool", "two")
	if status != cli.OK || strings.Contains(out, "one: ") {
		t.Errorf("-pool two: %d %s", status, out)
	}
	if status, _, errs := tune(t, "", server.URL, "-pool", "three"); status != cli.Failed || !strings.Contains(errs, `["one" "two"]`) {
		t.Errorf("-pool three: %d %s", status, errs)
	}
}

func servicePool(t *testing.T, name string) *tarn.Pool {
	t.Helper()
	p, err := tarn.NewPool(tarn.PoolConfig{Name: name, Classes: []int{4096, 65536}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20000 {
		p.Get(3000 + i%3000).Free()
	}
	return p
}

func TestTuneErrors(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		args   []string
		stdin  string
		status int
		says   string
	}{
		{nil, "", cli.Usage, "no source"},
		{[]string{"a", "b"}, "", cli.Usage, "one source"},
		{[]string{"-nonsense"}, "", cli.Usage, "-nonsense"},
		{[]string{"-k", "-3", "x"}, "", cli.Usage, "-k -3"},
		{[]string{filepath.Join(dir, "none")}, "", cli.Failed, "no such file"},
		{[]string{"-"}, "", cli.Failed, "malformed"},
		{[]string{"-"}, `{"sizes":[]}`, cli.Failed, "nothing recorded"},
		{[]string{"-"}, `{"sizes":[{"size":-1,"count":1}]}`, cli.Failed, "malformed"},
		{[]string{"-"}, "tarn-trace 1\n-0\n", cli.Failed, "line 2"},
		{[]string{"http://127.0.0.1:1/"}, "", cli.Failed, "127.0.0.1:1"},
		{[]string{"http:///nowhere"}, "", cli.Failed, "not an http"},
	} {
		status, out, errs := tune(t, tc.stdin, tc.args...)
		if status != tc.status || !strings.Contains(errs, tc.says) || strings.Count(errs, "\n") != 1 || out != "" {
			t.Errorf("%q: %d %q %q; want %d with %q on one line", tc.args, status, out, errs, tc.status, tc.says)
		}
	}
	if status, out, _ := tune(t, "", "-h"); status != cli.OK || !strings.Contains(out, "tarn tune") {
		t.Errorf("-h: %d %s", status, out)
	}
}

// The error of a program that has just begun says what to do.
func TestTuneOfANewProgram(t *testing.T) {
	_, err := solve(input{h: sizing.Histogram{Every: 256}}, 0)
	if !errors.Is(err, sizing.ErrEmpty) || !strings.Contains(err.Error(), "one get in 256") {
		t.Errorf("got %v", err)
	}
}
