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
	go traffic(ctx, pool)
	srv := &http.Server{Addr: "localhost:6060", Handler: debug.Handler(pool)}
	context.AfterFunc(ctx, func() { srv.Close() })
	fmt.Println("open http://localhost:6060/debug/tarn/")
	if err := srv.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		log.Fatal(err)
	}
}

// traffic handles a request each millisecond until ctx ends.
func traffic(ctx context.Context, pool *tarn.Pool) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			handle(pool, n)
		}
	}
}

// handle takes memory for one request. Each hundredth has an error, after which the buffer is not freed. Memory that is not the
// pool's makes the garbage collector run, as in other programs; it finds what is lost.
func handle(pool *tarn.Pool, n int) error {
	b := pool.Get(1<<10 + n%7<<10)
	if err := check(n, make([]byte, 32<<10)); err != nil {
		return err // the leak: no Free on this path
	}
	b.Free()
	return nil
}

func check(n int, scratch []byte) error {
	if n%100 == 99 {
		return fmt.Errorf("request %d is invalid (%d bytes)", n, len(scratch))
	}
	return nil
}
