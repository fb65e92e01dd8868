package bench

import (
	"syscall"
	"testing"
	"time"
)

// cpu is the processor time of this process, which is the client's alone: the server is another
// process. It depends less on the machine's other load than elapsed time.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// reportCPU reports the seconds used since begun for each GiB moved.
func reportCPU(b *testing.B, begun time.Duration, size int) {
	b.Helper()
	spent := cpu(b) - begun
	b.ReportMetric(spent.Seconds()/(float64(b.N)*float64(size)/(1<<30)), "cpu-s/GiB")
}
