package h2

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/tarntest"
)

// countedWrites counts the calls of Write.
type countedWrites struct {
	net.Conn
	n atomic.Int64
}

func (c *countedWrites) Write(p []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(p)
}

// TestCallersWriteTogether: frames of callers that are ready to run leave in one write with those of the first.
func TestCallersWriteTogether(t *testing.T) {
	const callers = 64
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	a, b := bufferedPipe()
	nc := &countedWrites{Conn: a}
	rec := newRecorder(t)
	c, err := NewClient(nc, rec, Config{Pool: tarntest.NewPool(t)})
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan struct{})
	go func() { defer close(run); c.Run() }()
	defer func() { b.Close(); <-run }()
	r := newRaw(t, b)
	readPreface(t, b)
	r.fr.WriteSettings()
	go r.listen()
	<-rec.gotSettings
	begin := make(chan struct{})
	var wrote sync.WaitGroup
	for range callers {
		s, err := c.Open(context.Background(), newCall(), &Out{Block: testRequest})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		wrote.Go(func() {
			<-begin
			if err := s.Write(context.Background(), &Out{Data: c.cfg.Pool.Get(100), Ending: End}); err != nil {
				t.Error(err)
			}
		})
	}
	pingPong(r, c)
	before := nc.n.Load()
	close(begin)
	wrote.Wait()
	eventually(t, "all frames", func() bool {
		return r.count(func(s seen) bool { return s.typ == http2.FrameData && s.end }) == callers
	}, stacks)
	if n := nc.n.Load() - before; n > callers/4 {
		t.Errorf("%d frames left in %d writes", callers, n)
	}
}
