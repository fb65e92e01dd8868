package main

import (
	"context"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

func runTarn(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var o, e strings.Builder
	status = run(context.Background(), args, cli.Streams{In: strings.NewReader(""), Out: &o, Err: &e})
	return status, o.String(), e.String()
}

func TestHelpListsEveryCommand(t *testing.T) {
	for _, args := range [][]string{nil, {"help"}, {"-h"}, {"--help"}} {
		status, out, errs := runTarn(t, args...)
		if status != cli.OK || errs != "" {
			t.Fatalf("tarn %v: status %d, %q", args, status, errs)
		}
		for _, c := range commands() {
			if !strings.Contains(out, "  "+c.Name()+" ") || !strings.Contains(out, c.Short) {
				t.Errorf("tarn %v does not list %s:\n%s", args, c.Name(), out)
			}
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	status, out, errs := runTarn(t, "brench")
	if status != cli.Usage || out != "" {
		t.Fatalf("status %d, output %q", status, out)
	}
	if strings.Count(errs, "\n") != 1 || !strings.Contains(errs, `"brench"`) {
		t.Fatalf("not one clear line: %q", errs)
	}
}

func TestEveryCommandRefusesAnUnknownFlag(t *testing.T) {
	for _, c := range commands() {
		t.Run(c.Name(), func(t *testing.T) {
			status, _, errs := runTarn(t, c.Name(), "-no-such-flag")
			if status != cli.Usage {
				t.Errorf("status %d, want %d", status, cli.Usage)
			}
			if strings.Count(errs, "\n") != 1 || !strings.Contains(errs, "no-such-flag") {
				t.Errorf("not one clear line: %q", errs)
			}
		})
	}
}

func TestCompletion(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if status, out, errs := runTarn(t, "completion", shell); status != cli.OK || !strings.Contains(out, "tarn") || errs != "" {
			t.Errorf("%s: %d %q", shell, status, errs)
		}
	}
	for _, c := range []struct {
		line string
		want string
	}{
		{"", "migrate\t"}, {"be", "bench\t"}, {"bench h", "http\n"}, {"smb m", "mkdir\t"}, {"smb get --ver", "--verify\t"}, {"top --sort ", "rate\n"}, {"completion ", "fish\t"},
	} {
		args := append([]string{"__complete"}, strings.Split(c.line, " ")...)
		if _, out, _ := runTarn(t, args...); !strings.Contains(out, c.want) {
			t.Errorf("tarn %s<TAB>: no %q in %q", c.line, c.want, out)
		}
	}
}
