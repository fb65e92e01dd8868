// Package top is the command "tarn top": the figures of a service's debug page, live in a terminal.
package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/cmd/tarn/internal/fetch"
	"github.com/tarn-go/tarn/debug"
)

// options are the command's flags.
type options struct {
	once  bool
	every time.Duration
	pool  string
	url   string

	order  order
	header fetch.Header
}

// Command is the command. Its end by a signal is no failure.
func Command() *cobra.Command {
	o := options{order: bySize}
	c := &cobra.Command{Use: "top [-once] [-every 1s] [-pool NAME] [-sort size|rate|held] [-header H] [-token T] URL", Short: "watch a running service's pools in a terminal", DisableFlagsInUseLine: true,
		Long: strings.TrimSpace(`
Shows the pools and the SMB sessions of a running service that mounts the debug page at URL. On a terminal it redraws; there
the arrow keys, j, k, the page keys, g and G scroll, s changes the order of the classes, and q or an
interrupt ends it. Elsewhere it prints one plain block of text after another.`),
		RunE: func(cmd *cobra.Command, addresses []string) error {
			if err := o.address(addresses); err != nil {
				return err
			}
			if err := run(cmd.Context(), o, cli.StreamsOf(cmd)); err != nil && cmd.Context().Err() == nil {
				return cli.Fail(err)
			}
			return nil
		}}
	c.Flags().BoolVar(&o.once, "once", false, "print one snapshot and end")
	c.Flags().DurationVar(&o.every, "every", time.Second, "how often to look, at least 500ms")
	c.Flags().StringVar(&o.pool, "pool", "", "show the pool of that name alone")
	c.Flags().TextVar(&o.order, "sort", bySize, "order of the classes: size, rate or held")
	c.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions([]string{"size", "rate", "held"}, cobra.ShellCompDirectiveNoFileComp))
	o.header.Flags(c.Flags())
	return c
}

// address sets the address, and checks the options.
func (o *options) address(addresses []string) error {
	switch {
	case len(addresses) > 1:
		return fmt.Errorf("want one address, not %s and %s", addresses[0], addresses[1])
	case len(addresses) == 0:
		return errors.New("no address: give the URL of a debug page (-h for help)")
	}
	switch o.url = addresses[0]; {
	case !fetch.IsURL(o.url):
		return fmt.Errorf("%s: %w", o.url, fetch.ErrURL)
	case o.every < 500*time.Millisecond:
		return fmt.Errorf("-every %v: at least 500ms, as a service renews its answer no more often", o.every)
	}
	return nil
}

func run(ctx context.Context, o options, std cli.Streams) error {
	first, err := look(ctx, o)
	if err != nil {
		return err
	}
	if o.once {
		_, err := io.WriteString(std.Out, draw(view{now: first, order: o.order}))
		return err
	}
	if file, ok := std.Out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return runTerminal(ctx, o, first, file, std.In)
	}
	_, err = io.WriteString(std.Out, draw(view{now: first, order: o.order}))
	for before := first; err == nil && wait(ctx, o.every); {
		var now *debug.Snapshot
		if now, err = look(ctx, o); err == nil {
			_, err = io.WriteString(std.Out, "\n"+draw(view{before: before, now: now, order: o.order}))
			before = now
		}
	}
	return err
}

// look asks for a snapshot and keeps the pools wanted.
func look(ctx context.Context, o options) (*debug.Snapshot, error) {
	s, err := fetch.Snapshot(ctx, o.url, "json", o.header.Header)
	if err != nil || o.pool == "" {
		return s, err
	}
	for _, p := range s.Pools {
		if p.Name == o.pool {
			s.Pools, s.Endpoints = []debug.Pool{p}, nil
			return s, nil
		}
	}
	return nil, fmt.Errorf("no pool %q", o.pool)
}

// wait reports false when ctx ended meanwhile.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
