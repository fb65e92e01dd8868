package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// version is the command "tarn version".
func version(_ context.Context, args []string, std cli.Streams) int {
	flags := flag.NewFlagSet("tarn version", flag.ContinueOnError)
	others, err := cli.Parse(flags, args, "usage: tarn version\n", std.Out)
	if err == nil && len(others) > 0 {
		err = fmt.Errorf("%q: it takes no arguments", others[0])
	}
	return cli.Finish("tarn version", err, std.Err, func() error {
		info, ok := debug.ReadBuildInfo()
		if !ok {
			info = &debug.BuildInfo{}
		}
		_, err := io.WriteString(std.Out, describe(info))
		return err
	})
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
