// Package smb is the command "tarn smb": it lists, copies and removes what is on SMB
// servers, for a person at a terminal or a script.
package smb

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

const usage = `usage: tarn smb COMMAND [flags] ARGUMENTS

  ls   [-l] [-r] URL                 list a directory, or the shares of a server
  cat  URL...                        write files to standard output
  get  [-r] URL... [DIRECTORY|FILE]  copy from a server
  put  [-r] FILE... URL              copy to a server
  cp   [-r] URL... URL               copy between servers, or within one
  rm   [-r] URL...                   remove files, with -r directories and what is in them
  du   URL...                        add up the sizes of files

A URL is smb://[DOMAIN;][user@]host[:port]/share/path. Without a user the logon is anonymous.
The password is asked for, or comes from SMB_PASSWORD or -password-file; -kerberos uses
the tickets of kinit instead. An interrupted copy goes on where it was when it is repeated.
A directory copied alone becomes the target; a "/" at the target's end puts it inside.

"tarn smb COMMAND -h" lists the flags.
`

// command is one of the subcommands.
type command struct {
	name string
	// least and most are how many arguments it takes; most 0 is any number.
	least, most int
	// flags adds the flags that are its own.
	flags func(*flag.FlagSet, *options)
	run   func(context.Context, *app, []string) error
}

func commands() []command {
	return []command{
		{"ls", 1, 1, listFlags, runList},
		{"cat", 1, 0, noFlags, runCat},
		{"get", 1, 0, copyFlags, runGet},
		{"put", 2, 0, copyFlags, runPut},
		{"cp", 2, 0, copyFlags, runCopy},
		{"rm", 1, 0, recursiveFlag, runRemove},
		{"du", 1, 0, noFlags, runUsage},
	}
}

// errUsage marks errors that are about the command line.
var errUsage = errors.New("")

func usageError(format string, args ...any) error {
	return fmt.Errorf("%w%w", errUsage, fmt.Errorf(format, args...))
}

// errReported says that what went wrong has been written already.
var errReported = errors.New("smb: some of it failed")

// Run runs the command and returns its exit status: [cli.OK], [cli.Failed] or [cli.Usage].
// args do not have the "smb" in front. Cancelling ctx ends it in good order.
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
	set.SetOutput(io.Discard)
	opts.add(set)
	c.flags(set, &opts)
	err := set.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintf(std.Out, "flags of tarn smb %s:\n", c.name)
		set.SetOutput(std.Out)
		set.PrintDefaults()
		return cli.OK
	}
	if err == nil {
		err = opts.check()
	}
	if err == nil && (set.NArg() < c.least || c.most > 0 && set.NArg() > c.most) {
		err = fmt.Errorf("wrong number of arguments; \"tarn smb help\" shows what it takes")
	}
	if err != nil {
		fmt.Fprintf(std.Err, "tarn smb %s: %v\n", c.name, err)
		return cli.Usage
	}
	a := newApp(c.name, opts, std)
	defer a.close()
	return a.status(ctx, c.run(ctx, a, set.Args()))
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
