// Package smb is the command "tarn smb": it lists, copies and removes what is on SMB servers, for
// a person at a terminal or a script.
package smb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

const about = `Lists, copies and removes what is on SMB servers.

A URL is smb://[DOMAIN;][user@]host[:port]/share/path. In the last parts of a path * ? and [ ]
match names. Without a user the logon is anonymous. The password is asked for, or comes from
SMB_PASSWORD or --password-file; SMB_NT_HASH or --nt-hash-file has the password's NT hash instead;
--kerberos uses the tickets of kinit. A server that does not know the user is refused unless
--guest allows it to let the user in as a guest.

An interrupted copy continues where it was when it is repeated. A copy goes into a target that is a
directory, as with cp; with -T a directory becomes the target. What is left out, because it is not a
regular file or has a temporary name, is reported, and makes the exit status 1, as an error does.

rclone-tarn keeps directories equal, mounts, and serves shares by other protocols: it is rclone with a
backend on the same client. See github.com/tarn-go/tarn/smb/rclone.

Flags may stand anywhere; "--" ends them.`

// Command is "tarn smb". A command of it that is interrupted ends gracefully.
func Command() *cobra.Command {
	opts := &options{}
	c := &cobra.Command{Use: "smb", Short: "list and copy files of an SMB server", Long: about, RunE: func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) == 0:
			io.WriteString(cmd.ErrOrStderr(), cmd.UsageString())
			return cli.Status(cli.Usage)
		case args[0] == "help":
			return cmd.Help()
		}
		return fmt.Errorf("unknown command %q; \"tarn smb help\" lists them", args[0])
	}}
	opts.add(c.PersistentFlags())
	c.AddCommand(
		opts.command("ls URL...", "list a directory, or the shares of a server", 1, listFlags, runList),
		opts.command("cat URL...", "write files to standard output", 1, noFlags, runCat),
		opts.command("get URL... [DIRECTORY|FILE]", "copy from a server", 1, copyFlags, runGet),
		opts.command("put FILE... URL", "copy to a server", 2, copyFlags, runPut),
		opts.command("mv URL... URL", "rename, within a share", 2, noFlags, runMove),
		opts.command("ln URL... URL", "give files another name (hard links), or with -s make a symbolic link", 2, linkFlags, runLink),
		opts.command("mkdir URL...", "make directories", 1, mkdirFlags, runMkdir),
		opts.command("rm URL...", "remove files, with -r directories and what is in them", 1, recursiveFlag, runRemove),
	)
	return c
}

// command is one of the subcommands, which takes least arguments or more.
func (o *options) command(use, short string, least int, flags func(*pflag.FlagSet, *options), run func(context.Context, *app, []string) error) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, RunE: func(cmd *cobra.Command, args []string) error {
		if err := o.check(cmd.Flags()); err != nil {
			return err
		}
		if len(args) < least {
			return fmt.Errorf("wrong number of arguments; \"%s -h\" shows what it takes", cmd.CommandPath())
		}
		std := cli.StreamsOf(cmd)
		out := &output{w: std.Out}
		std.Out = out
		a := newApp(cmd.Name(), *o, std)
		err := run(cmd.Context(), a, args)
		if err == nil {
			err = out.err // what was written is not all there is to know
		}
		status := a.status(cmd.Context(), err)
		a.close()
		a.reportTraffic()
		if status != cli.OK {
			return cli.Status(status)
		}
		return nil
	}}
	flags(c.Flags(), o)
	return c
}

// errUsage marks errors that are about the command line.
var errUsage = errors.New("")

func usageError(format string, args ...any) error {
	return fmt.Errorf("%w%w", errUsage, fmt.Errorf(format, args...))
}

// errReported means that the error has been written already.
var errReported = errors.New("smb: some of it failed")

// output is standard output, and keeps the first error of writing to it. Its users write one at a time.
type output struct {
	w   io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.w.Write(p)
	if o.err == nil {
		o.err = err
	}
	return n, err
}

// status reports err in one line and turns it into an exit status.
func (a *app) status(ctx context.Context, err error) int {
	switch {
	case err == nil:
		return cli.OK
	case errors.Is(err, errReported):
		return cli.Failed
	case ctx.Err() != nil:
		a.complain("interrupted")
		return cli.Failed
	case errors.Is(err, errUsage):
		a.complain("%v", err)
		return cli.Usage
	}
	a.complain("%s", explain(err))
	return cli.Failed
}

// trouble reports the error of one of several things to do, and remembers that there was one. It is safe for concurrent use.
type trouble struct {
	app *app
	bad atomic.Bool
}

// report reports err and returns nil, so that the others are done; it returns err where the
// command is to end: it was interrupted, or used wrongly.
func (t *trouble) report(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil || errors.Is(err, errUsage) {
		return err
	}
	t.bad.Store(true)
	t.app.complain("%s", explain(err))
	return nil
}

// result is errReported when an error was reported.
func (t *trouble) result() error {
	if t.bad.Load() {
		return errReported
	}
	return nil
}

// hasMeta reports whether a path has characters that match others.
func hasMeta(name string) bool { return strings.ContainsAny(name, "*?[") }
