package interop

import (
	"os"
	"os/exec"
	"testing"
)

// TestNewestRelease runs the tests of what rpc depends on in grpc-go, which it neither exports nor promises, with the release that this module
// requires: the newest. Module rpc runs them with the lowest.
func TestNewestRelease(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "test", "-count=1", "github.com/tarn-go/tarn/rpc/internal/grpcgo")
	cmd.Env = append(os.Environ(), "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
