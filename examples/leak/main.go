// Command leak makes its own traffic and loses a buffer in each hundredth request. Open the page that it names: after a few
// seconds "Trouble" names the line of this program that took the buffers.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "leaky", Check: tarn.CheckAll})
	if err != nil {
		log.Fatal(err)
	}
	s := &server{pool: pool, pending: make(map[int]*request)}
	go s.traffic(ctx)
	srv := &http.Server{Addr: "localhost:6060", Handler: debug.Handler(pool)}
	context.AfterFunc(ctx, func() { srv.Close() })
	fmt.Println("open http://localhost:6060/debug/tarn/")
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

// server has the requests that are being handled, by number.
type server struct {
	pool    *tarn.Pool
	pending map[int]*request
}

type request struct{ body tarn.Buffer }

// traffic handles a request each millisecond until ctx ends.
func (s *server) traffic(ctx context.Context) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.receive(n)
			s.handle(n)
		}
	}
}

// receive takes memory for request n.
func (s *server) receive(n int) {
	s.pending[n] = &request{body: s.pool.Get(1<<10 + n%7<<10)}
}

// handle ends request n. Each hundredth has an error, after which its buffer is not freed. The analyser does not find this: another
// function put the buffer into the map. Memory that is not the pool's makes the garbage collector run, as in other programs; it finds
// what is lost.
func (s *server) handle(n int) error {
	r := s.pending[n]
	delete(s.pending, n)
	if err := check(n, make([]byte, 32<<10)); err != nil {
		return err // the leak: no r.body.Free() on this path
	}
	r.body.Free()
	return nil
}

func check(n int, scratch []byte) error {
	if n%100 == 99 {
		return fmt.Errorf("request %d is invalid (%d bytes)", n, len(scratch))
	}
	return nil
}
