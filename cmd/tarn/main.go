// Command tarn measures, watches and tunes buffer pools, and copies files with the SMB client.
//
//	go run ./cmd/tarn bench
//
// "tarn help" lists its commands; "tarn COMMAND -h" shows the arguments of each.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/tarn-go/tarn/cmd/tarn/internal/bench"
	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/cmd/tarn/internal/migrate"
	"github.com/tarn-go/tarn/cmd/tarn/internal/smb"
	"github.com/tarn-go/tarn/cmd/tarn/internal/top"
	"github.com/tarn-go/tarn/cmd/tarn/internal/tune"
)

// command is one of the things tarn does.
type command struct {
	name  string
	about string
	run   func(ctx context.Context, args []string, std cli.Streams) int
}

func commands() []command {
	return []command{
		{"bench", "measure Tarn beside what programs use today", bench.Run},
		{"top", "watch a running service's pools in a terminal", top.Run},
		{"tune", "find the best size classes for what a pool recorded", tune.Run},
		{"smb", "list and copy files of an SMB server", smb.Run},
		{"migrate", "change a program from grpc-go to package rpc", migrate.Run},
		{"version", "print the version of Tarn and of what it is built with", version},
	}
}

func main() {
	ctx, stop := interruptible()
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// interruptible returns a context that ends when the user interrupts the program, or a supervisor such as systemd ends it.
func interruptible() (context.Context, context.CancelFunc) {
	return signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
}

// run is the program without the process: it returns the exit status.
func run(ctx context.Context, args []string, std cli.Streams) int {
	if len(args) == 0 || args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		if err := help(std.Out); err != nil {
			return cli.Failed
		}
		return cli.OK
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], std)
		}
	}
	fmt.Fprintf(std.Err, "tarn: unknown command %q; \"tarn help\" lists the commands\n", args[0])
	return cli.Usage
}

func help(w io.Writer) error {
	text := "usage: tarn COMMAND [arguments]\n\n"
	for _, c := range commands() {
		text += fmt.Sprintf("  %-8s%s\n", c.name, c.about)
	}
	text += "\n\"tarn COMMAND -h\" lists a command's arguments.\n"
	_, err := io.WriteString(w, text)
	return err
}
