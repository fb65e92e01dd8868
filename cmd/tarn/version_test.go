package main

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

func TestVersion(t *testing.T) {
	var out, errs bytes.Buffer
	if status := run(t.Context(), []string{"version"}, cli.Streams{Out: &out, Err: &errs}); status != cli.OK || !strings.HasPrefix(out.String(), "tarn ") {
		t.Errorf("%d %q %q", status, &out, &errs)
	}
	if status := run(t.Context(), []string{"version", "x"}, cli.Streams{Out: &out, Err: &errs}); status != cli.Usage {
		t.Errorf("with an argument: %d", status)
	}
}

func TestDescribe(t *testing.T) {
	got := describe(&debug.BuildInfo{
		Main:     debug.Module{Version: "v0.1.0"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}, {Key: "vcs.time", Value: "2026-01-01"}, {Key: "vcs.modified", Value: "true"}},
		Deps:     []*debug.Module{{Path: "github.com/tarn-go/tarn", Version: "v0.1.0"}, {Path: "example.com/other", Version: "v1.0.0"}},
	})
	for _, want := range []string{"tarn v0.1.0 go", "commit abc of 2026-01-01, with changes", "  github.com/tarn-go/tarn v0.1.0"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %q", want, got)
		}
	}
	if strings.Contains(got, "example.com") {
		t.Errorf("got %q", got)
	}
}
