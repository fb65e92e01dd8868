package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// version is the command "tarn version".
func version() *cobra.Command {
	return &cobra.Command{Use: "version", Short: "print the version of Tarn and of what it is built with", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, ok := debug.ReadBuildInfo()
			if !ok {
				info = &debug.BuildInfo{}
			}
			_, err := io.WriteString(cmd.OutOrStdout(), describe(info))
			return cli.Fail(err)
		}}
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
