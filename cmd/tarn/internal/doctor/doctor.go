// Package doctor is the command "tarn doctor": from what a program is built of, and from where it spends processor time and memory, it
// says which switch to Tarn would pay.
package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
)

// options are the command's flags.
type options struct {
	sources []string
	length  time.Duration
	json    bool
	header  fetch.Header
}

// Command is the command.
func Command() *cobra.Command {
	var o options
	c := &cobra.Command{Use: "doctor [-seconds N] [-json] [-header H] [-token T] BINARY|URL|PROFILE...", Short: "say which switch to Tarn would pay for a program", DisableFlagsInUseLine: true,
		Long: strings.TrimSpace(`
Reads what a program is made of and where it spends its time, and says which switch to Tarn would pay:
rpc, h2http, smb, a pool, checks. It rests on the sources that it is given:

  BINARY   a program built by Go: its modules and their versions
  URL      a running program that has net/http/pprof, such as http://localhost:6060: its processor time
           for some seconds, under load, and what it allocated
  PROFILE  files that were saved from there: a CPU profile, a heap or allocs profile

A binary alone says what could be switched, a profile alone what would pay; both together say most.`),
		RunE: func(cmd *cobra.Command, sources []string) error {
			if len(sources) == 0 {
				return errors.New("no source: give a binary, the URL of a program with net/http/pprof, or profiles (-h for help)")
			}
			if o.length < time.Second || o.length > 10*time.Minute {
				return fmt.Errorf("-seconds %v: between 1s and 10m", o.length)
			}
			o.sources = sources
			return cli.Fail(run(cmd.Context(), o, cli.StreamsOf(cmd)))
		}}
	o.length = 10 * time.Second
	c.Flags().Func("seconds", "how long a running program is profiled, as `N` seconds or a duration such as 1m (default 10)", func(s string) error {
		d, err := time.ParseDuration(s)
		if err != nil {
			d, err = time.ParseDuration(s + "s")
		}
		o.length = d
		return err
	})
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	o.header.Flags(c.Flags())
	return c
}

func run(ctx context.Context, o options, std cli.Streams) error {
	var p program
	for _, source := range o.sources {
		if err := p.load(ctx, source, o); err != nil {
			return err
		}
	}
	r := p.examine()
	if !o.json {
		return r.print(std.Out)
	}
	e := json.NewEncoder(std.Out)
	e.SetIndent("", "  ")
	return e.Encode(r)
}
