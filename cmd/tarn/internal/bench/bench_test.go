package bench

import (
	"context"
	"encoding/json"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// TestMain runs a relay where the command would: in a process of its own program, which is this one.
func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) > 1 && args[0] == "bench" && args[1] == relayCommand {
		os.Exit(Run(context.Background(), args[1:], cli.Streams{Err: os.Stderr}))
	}
	os.Exit(m.Run())
}

func runBench(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	status = Run(context.Background(), args, cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return status, o.String(), e.String()
}

func TestWrongArguments(t *testing.T) {
	for _, args := range [][]string{
		{"-frob"}, {"core", "-frob"}, {"nosuch"}, {"core", "nosuch"}, {"-o"}, {"-short=perhaps"},
	} {
		status, out, errs := runBench(t, args...)
		if status != cli.Usage || out != "" {
			t.Errorf("%v: status %d, output %q", args, status, out)
		}
		if strings.Count(errs, "\n") != 1 || !strings.HasPrefix(errs, "tarn bench: ") {
			t.Errorf("%v: not one clear line: %q", args, errs)
		}
	}
}

func TestHelpNamesSectionsAndFlags(t *testing.T) {
	status, out, errs := runBench(t, "-h")
	if status != cli.OK || errs != "" {
		t.Fatalf("status %d, %q", status, errs)
	}
	for _, want := range []string{"core", "http", "grpc", "rpc", "smb", "-short", "-json", "-o, --output file"} {
		if !strings.Contains(out, want) {
			t.Errorf("help does not mention %s:\n%s", want, out)
		}
	}
}

func TestShortRunOfEverySection(t *testing.T) {
	for _, s := range sections() {
		t.Run(s.name, func(t *testing.T) {
			html := filepath.Join(t.TempDir(), "report.html")
			status, out, errs := runBench(t, "-short", "-json", "-o", html, s.name)
			if status != cli.OK {
				t.Fatalf("status %d: %s", status, errs)
			}
			if errs != "" {
				t.Errorf("a progress line was written to what is not a terminal: %q", errs)
			}
			var rep Report
			if err := json.Unmarshal([]byte(out), &rep); err != nil {
				t.Fatal(err)
			}
			checkReport(t, &rep, s.name)
			checkPage(t, html, &rep)
		})
	}
}

func checkReport(t *testing.T, rep *Report, name string) {
	t.Helper()
	if rep.Machine.CPU == "" || rep.Machine.Go == "" || rep.Seconds <= 0 {
		t.Errorf("the machine is not named: %+v", rep.Machine)
	}
	if len(rep.Sections) != 1 || rep.Sections[0].Name != name {
		t.Fatalf("not the section asked for: %+v", rep.Sections)
	}
	if note := rep.Sections[0].Note; note != "" {
		t.Logf("%s: %s", name, note)
		if os.Getenv("CI") != "" {
			t.Errorf("%s may not be left out here", name)
		}
	} else if len(rep.Sections[0].Cases) == 0 {
		t.Error("no cases")
	}
	for _, c := range rep.Sections[0].Cases {
		for _, r := range c.Rows {
			first := r.Values[c.Metrics[0].Key]
			if first <= 0 || len(r.Turns) == 0 {
				t.Errorf("%s: %s: %v in %v", c.Title, r.Name, first, r.Turns)
			}
			if (r.Kind == Tarn) != (r.Ahead == 0) {
				t.Errorf("%s: %s: ratio %v", c.Title, r.Name, r.Ahead)
			}
		}
	}
}

func checkPage(t *testing.T, name string, rep *Report) {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	for _, c := range rep.Sections[0].Cases {
		if !strings.Contains(page, ">"+c.Title+"</h3>") {
			t.Errorf("the page lacks %q", c.Title)
		}
	}
	if note := rep.Sections[0].Note; note != "" && !strings.Contains(page, template.HTMLEscapeString(note)) {
		t.Errorf("the page lacks %q", note)
	}
	if len(rep.Sections[0].Cases) > 0 && !strings.Contains(page, `<i class="ours" style="width:`) || !strings.Contains(page, "color-scheme:light dark") {
		t.Error("the page has no plots, or no dark colour scheme")
	}
	for _, bad := range []string{"http://", "https://", "src=", "@import", "ZgotmplZ", "NaN"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page contains %q", bad)
		}
	}
}

func TestTextNamesTheMachineAndTheRatios(t *testing.T) {
	status, out, errs := runBench(t, "core", "-short")
	if status != cli.OK {
		t.Fatalf("status %d: %s", status, errs)
	}
	for _, want := range []string{machine().CPU, machine().Go, "tarn's/its", "sync.Pool", "grpc mem", "make", "x  "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

func TestReportThatCannotBeWritten(t *testing.T) {
	status, _, errs := runBench(t, "core", "-short", "-o", filepath.Join(t.TempDir(), "no", "such", "dir.html"))
	if status != cli.Failed || strings.Count(errs, "\n") != 1 {
		t.Errorf("status %d, %q", status, errs)
	}
}

// A whole run keeps its page in the working directory; a short one, or one for a machine, does not unless it is told to.
func TestReportIsKept(t *testing.T) {
	t.Chdir(t.TempDir())
	rep := &Report{Started: time.Date(2026, 11, 29, 6, 5, 0, 0, time.UTC)}
	for _, c := range []struct {
		opt  options
		want string
	}{
		{options{}, "tarn-bench-2026-11-29-0605.html"}, {options{short: true}, ""}, {options{json: true}, ""}, {options{html: "mine.html"}, "mine.html"}, {options{short: true, html: "short.html"}, "short.html"},
	} {
		var out strings.Builder
		if err := deliver(rep, c.opt, &out); err != nil {
			t.Fatal(err)
		}
		files, err := filepath.Glob("*")
		if err != nil || strings.Join(files, " ") != c.want || !strings.Contains(out.String(), c.want) {
			t.Errorf("%+v: %q, want %q; %s", c.opt, files, c.want, out.String())
		}
		for _, f := range files {
			os.Remove(f)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, s := range sections() {
		var o, e strings.Builder
		if status := Run(ctx, []string{"-short", s.name}, cli.Streams{Out: &o, Err: &e}); status != cli.Failed || o.Len() > 0 {
			t.Errorf("%s: status %d, output %q", s.name, status, o.String())
		}
	}
}

func TestSMBClientRate(t *testing.T) {
	rate, err := smbClientRate("getting file \\f of size 67108864 as /dev/null (1000.5 KiloBytes/sec) (average 1000.5 KiloBytes/sec)\n")
	if err != nil || rate != 1000.5*1024 {
		t.Errorf("%v, %v", rate, err)
	}
	for _, bad := range []string{"", "NT_STATUS_ACCESS_DENIED", "(fast KiloBytes/sec)"} {
		if rate, err := smbClientRate(bad); err == nil {
			t.Errorf("%q has the rate %v", bad, rate)
		}
	}
}

// TestWithoutSamba: where Samba is not installed, the report says so and nothing fails.
func TestWithoutSamba(t *testing.T) {
	if _, err := os.Stat("/usr/sbin/smbd"); err == nil {
		// smbd is found even when PATH does not have it; only the go command can be hidden.
		t.Log("smbd is installed: testing without go instead")
	}
	t.Setenv("PATH", t.TempDir())
	status, out, errs := runBench(t, "-short", "smb")
	if status != cli.OK || errs != "" || !strings.Contains(out, "Left out: ") {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}
