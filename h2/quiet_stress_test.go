package h2

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// returning is a handler that returns what comes on a stream, as it comes.
type returning struct{ pool *tarn.Pool }

func (h returning) OnHeaders(s *Stream, _ *Header, e Ending) {
	s.Started()
	if s.Post(&Out{Block: testResponse}); e == End {
		h.end(s)
	}
}

func (h returning) OnData(s *Stream, b tarn.Buffer, e Ending) {
	n := b.Len()
	s.Post(&Out{Data: b})
	if s.Consumed(n); e == End {
		h.end(s)
	}
}

func (returning) end(s *Stream) {
	s.Post(&Out{TrailerBlock: testTrailer})
	s.Release()
}

func (returning) OnReset(s *Stream, _ error) { s.Release() }

// taking is the client's side of a stream to returning: it counts what comes.
type taking struct {
	mu   sync.Mutex
	cond sync.Cond
	n    int
	over bool
	err  error
}

func newTaking() *taking {
	k := new(taking)
	k.cond.L = &k.mu
	return k
}

// await returns when n bytes have come, or for n < 0 the end, or why the stream has ended before.
func (k *taking) await(n int) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for !k.over && (n < 0 || k.n < n) {
		k.cond.Wait()
	}
	if k.err == nil && k.n < n {
		return fmt.Errorf("%d bytes instead of %d", k.n, n)
	}
	return k.err
}

func (k *taking) note(n int, over Ending, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.n += n
	k.over = k.over || over == End
	k.err = err
	k.cond.Broadcast()
}

type takingHandler struct{}

func (takingHandler) OnHeaders(s *Stream, _ *Header, e Ending) { s.Value.(*taking).note(0, e, nil) }
func (takingHandler) OnReset(s *Stream, err error)             { s.Value.(*taking).note(0, End, err) }
func (takingHandler) OnData(s *Stream, b tarn.Buffer, e Ending) {
	n := b.Len()
	s.Consumed(n)
	b.Free()
	s.Value.(*taking).note(n, e, nil)
}

// TestQuietStress: streams that talk and are silent at random, on connections that rest whenever nothing comes for a few tens of
// microseconds, lose nothing, and both sides become idle after them.
func TestQuietStress(t *testing.T) {
	forEachIdle(t, func(t *testing.T, w wiring) {
		const callers, streams, steps = 3, 15, 15
		pool := tarntest.NewPool(t)
		cfg := Config{Pool: pool, idleAfter: 20 * time.Microsecond, poller: quickPoller(), Policy: PingPolicy{MinTime: -1}, Limits: Limits{Useless: 1 << 20}}
		a, b := w(t)
		c, err := NewClient(a, takingHandler{}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		s, err := NewServer(b, returning{pool}, cfg)
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := a.(wrapped); ok {
			c.AllowIdle()
			s.AllowIdle()
		}
		var runs, wg sync.WaitGroup
		runs.Add(2)
		over := func(error) { runs.Done() }
		c.Start(over)
		s.Start(over)
		for i := range callers {
			rnd := rand.New(rand.NewPCG(7, uint64(i)))
			wg.Go(func() {
				for range streams {
					if err := talk(c, pool, rnd, steps); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		awaitIdle(t, c, s)
		c.Close()
		runs.Wait()
	})
}

// talk opens a stream, and sends on it, waits for what returns, and is silent, in random order.
func talk(c *Conn, pool *tarn.Pool, rnd *rand.Rand, steps int) error {
	ctx := context.Background()
	k := newTaking()
	s, err := c.Open(ctx, k, &Out{Block: testRequest})
	if err != nil {
		return err
	}
	defer s.Release()
	sent := 0
	for range rnd.IntN(steps) {
		switch rnd.IntN(8) {
		case 0:
			s.Reset(Cancel)
			return nil
		case 1:
			if _, err := c.Ping(ctx); err != nil {
				return err
			}
		case 2, 3, 4:
			rests := func() bool {
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.rest != notResting
			}
			for i := rnd.IntN(3000); i > 0 && !rests(); i-- {
				runtime.Gosched()
			}
		default:
			n := 1 + rnd.IntN(1<<rnd.IntN(15))
			if err := s.Write(ctx, &Out{Data: pool.Copy(make([]byte, n))}); err != nil {
				return err
			}
			if sent += n; rnd.IntN(2) == 0 {
				continue
			}
			if err := k.await(sent); err != nil {
				return err
			}
		}
	}
	if err := s.Write(ctx, &Out{Ending: End}); err != nil {
		return err
	}
	if err := k.await(-1); err != nil || k.n != sent {
		return fmt.Errorf("%d bytes of %d came back: %v", k.n, sent, err)
	}
	return nil
}
