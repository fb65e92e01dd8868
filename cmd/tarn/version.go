package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// version is the command "tarn version".
func version(_ context.Context, args []string, std cli.Streams) int {
	if len(args) > 0 {
		fmt.Fprintln(std.Err, "tarn version: it takes no arguments")
		return cli.Usage
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	if _, err := io.WriteString(std.Out, describe(info)); err != nil {
		return cli.Failed
	}
	return cli.OK
}

// describe writes the command's version, commit, compiler and the modules of Tarn it is made of.
func describe(info *debug.BuildInfo) string {
	version := info.Main.Version
	if version == "" {
		version = "(devel)"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "tarn %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	if commit := settings["vcs.revision"]; commit != "" {
		fmt.Fprintf(&b, "commit %s of %s", commit, settings["vcs.time"])
		if settings["vcs.modified"] == "true" {
			b.WriteString(", with changes")
		}
		b.WriteString("\n")
	}
	for _, m := range info.Deps {
		if strings.HasPrefix(m.Path, "github.com/tarn-go/tarn") || m.Path == "google.golang.org/grpc" {
			fmt.Fprintf(&b, "  %s %s\n", m.Path, m.Version)
		}
	}
	return b.String()
}
