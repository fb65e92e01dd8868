package bench

import (
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/cputime"
)

// reportCPU reports the seconds used since begun for each GiB moved, which are the client's: the server is another process.
func reportCPU(b *testing.B, begun time.Duration, size int) {
	b.Helper()
	spent := cputime.Used() - begun
	b.ReportMetric(spent.Seconds()/(float64(b.N)*float64(size)/(1<<30)), "cpu-s/GiB")
}
