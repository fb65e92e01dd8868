package h2

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// TestOneGoroutine: on a plain TCP connection nothing of this package runs but the goroutine of each side that reads, with calls
// open and after them.
func TestOneGoroutine(t *testing.T) {
	faultnet.NeedsTCP(t, "other connections have a writer goroutine")
	before := runtime.NumGoroutine()
	p := newPair(t, tcpWiring, Config{idleAfter: time.Hour}, Config{idleAfter: time.Hour})
	var open []*Stream
	for range 10 {
		p.do(t, make([]byte, 100_000))
		s, err := p.c.Open(context.Background(), newCall(), &Out{Block: testRequest})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, s)
		// A handler, or a writer goroutine for what the socket did not take, is about to end.
		eventually(t, "two more goroutines", func() bool { return runtime.NumGoroutine() <= before+2 }, stacks)
	}
	for _, s := range open {
		s.Release()
	}
}
