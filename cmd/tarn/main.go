// Command tarn measures, watches and tunes buffer pools, and copies files with the SMB client.
//
//	go run ./cmd/tarn bench
//
// "tarn help" lists its commands; "tarn COMMAND -h" shows the arguments of each; "tarn completion bash",
// zsh or fish writes a script that has a shell complete them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/tarn-go/tarn/cmd/tarn/internal/bench"
	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
	"github.com/tarn-go/tarn/cmd/tarn/internal/doctor"
	"github.com/tarn-go/tarn/cmd/tarn/internal/migrate"
	"github.com/tarn-go/tarn/cmd/tarn/internal/smb"
	"github.com/tarn-go/tarn/cmd/tarn/internal/top"
	"github.com/tarn-go/tarn/cmd/tarn/internal/tune"
)

func commands() []*cobra.Command {
	return []*cobra.Command{bench.Command(), top.Command(), tune.Command(), doctor.Command(), smb.Command(), migrate.Command(), version()}
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
	return cli.Execute(ctx, cli.Root(commands()...), args, std)
}
