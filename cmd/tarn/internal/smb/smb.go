// Package smb is the command "tarn smb": it lists, copies and removes what is on SMB servers, for
// a person at a terminal or a script.
package smb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

const usage = `usage: tarn smb COMMAND [flags] ARGUMENTS

  ls    [-l] [-r] URL...              list a directory, or the shares of a server
  cat   URL...                        write files to standard output
  get   [-r] URL... [DIRECTORY|FILE]  copy from a server
  put   [-r] FILE... URL              copy to a server
  mv    URL... URL                    rename, within a share
  mkdir [-p] URL...                   make directories
  rm    [-r] URL...                   remove files, with -r directories and what is in them

A URL is smb://[DOMAIN;][user@]host[:port]/share/path. In the last parts of a path * ? and [ ]
match names. Without a user the logon is anonymous. The password is asked for, or comes from
SMB_PASSWORD or -password-file; SMB_NT_HASH or -nt-hash-file has the password's NT hash instead;
-kerberos uses the tickets of kinit. A server that does not know the user is refused unless
-guest allows it to let the user in as a guest.

An interrupted copy continues where it was when it is repeated. A copy goes into a target that is a
directory, as with cp; with -T a directory becomes the target. What is left out, because it is not a regular
file or has a temporary name, is reported, and makes the exit status 1, as an error does.

Flags may stand anywhere; "--" ends them. "tarn smb COMMAND -h" lists them.
`

// command is one of the subcommands.
type command struct {
	name  string
	least int // arguments
	// flags adds the flags that only this command has.
	flags func(*flag.FlagSet, *options)
	run   func(context.Context, *app, []string) error
}

func commands() []command {
	return []command{
		{"ls", 1, listFlags, runList},
		{"cat", 1, noFlags, runCat},
		{"get", 1, copyFlags, runGet},
		{"put", 2, copyFlags, runPut},
		{"mv", 2, noFlags, runMove},
		{"mkdir", 1, mkdirFlags, runMkdir},
		{"rm", 1, recursiveFlag, runRemove},
	}
}

// errUsage marks errors that are about the command line.
var errUsage = errors.New("")

func usageError(format string, args ...any) error {
	return fmt.Errorf("%w%w", errUsage, fmt.Errorf(format, args...))
}

// errReported means that the error has been written already.
var errReported = errors.New("smb: some of it failed")

// Run runs the command and returns its exit status: [cli.OK], [cli.Failed] or [cli.Usage].
// args do not have the "smb" in front. Cancelling ctx ends the command gracefully.
func Run(ctx context.Context, args []string, std cli.Streams) int {
	if len(args) == 0 {
		io.WriteString(std.Err, usage)
		return cli.Usage
	}
	if args[0] == "-h" || args[0] == "-help" || args[0] == "--help" || args[0] == "help" {
		io.WriteString(std.Out, usage)
		return cli.OK
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return runCommand(ctx, c, args[1:], std)
		}
	}
	fmt.Fprintf(std.Err, "tarn smb: unknown command %q; \"tarn smb help\" lists them\n", args[0])
	return cli.Usage
}

func runCommand(ctx context.Context, c command, args []string, std cli.Streams) int {
	opts := options{}
	set := flag.NewFlagSet("tarn smb "+c.name, flag.ContinueOnError)
	opts.add(set)
	c.flags(set, &opts)
	literal := 0 // of args, from the end: those behind "--"
	for i, arg := range args {
		if arg == "--" {
			literal = len(args) - i - 1
			break
		}
	}
	flags := args[:len(args)-literal]
	if literal > 0 || len(flags) > 0 && flags[len(flags)-1] == "--" {
		flags = flags[:len(flags)-1]
	}
	rest, err := cli.Parse(set, flags, fmt.Sprintf("flags of tarn smb %s:\n", c.name), std.Out)
	if errors.Is(err, flag.ErrHelp) {
		return cli.OK
	}
	rest = append(rest, args[len(args)-literal:]...)
	if err == nil {
		err = opts.check()
	}
	if err == nil && len(rest) < c.least {
		err = fmt.Errorf("wrong number of arguments; \"tarn smb help\" shows what it takes")
	}
	if err != nil {
		fmt.Fprintf(std.Err, "tarn smb %s: %v\n", c.name, err)
		return cli.Usage
	}
	out := &output{w: std.Out}
	std.Out = out
	a := newApp(c.name, opts, std)
	err = c.run(ctx, a, rest)
	if err == nil {
		err = out.err // what was written is not all there is to know
	}
	status := a.status(ctx, err)
	a.close()
	a.reportTraffic()
	return status
}

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
