package tune

import (
	"context"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// Run runs the command and returns its exit status.
func Run(ctx context.Context, args []string, std cli.Streams) int {
	return cli.Run(ctx, Command(), args, std)
}
