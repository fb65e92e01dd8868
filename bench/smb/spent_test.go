package bench

import (
	"testing"

	"github.com/tarn-go/tarn/internal/cputime"
	"github.com/tarn-go/tarn/internal/rig"
)

// spending is the processor time that the client (this process) and the server use for the calls of a benchmark.
type spending struct {
	srv            *rig.Server
	client, server cputime.Spent // when the clock was started last
	used           [2]cputime.Spent
}

// start begins a part of the benchmark that counts.
func (s *spending) start(b *testing.B) {
	b.Helper()
	s.client = cputime.Own()
	var err error
	s.server, err = cputime.Session(s.srv.PID())
	must(b, err)
	b.StartTimer()
}

// stop ends it. The server's processes for the connections must still be there.
func (s *spending) stop(b *testing.B) {
	b.Helper()
	b.StopTimer()
	server, err := cputime.Session(s.srv.PID())
	must(b, err)
	s.used[0].Add(cputime.Own().Sub(s.client))
	s.used[1].Add(server.Sub(s.server))
}

// report reports nanoseconds a call: the client's, the server's, and which part of both is the kernel's.
func (s *spending) report(b *testing.B) {
	b.Helper()
	n := float64(b.N)
	b.ReportMetric(float64(s.used[0].All)/n, "cpu-ns/op")
	b.ReportMetric(float64(s.used[1].All)/n, "server-ns/op")
	b.ReportMetric(float64(s.used[0].Kernel+s.used[1].Kernel)/n, "kernel-ns/op")
}
