package h2

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// asking is a context that calls the connection when it is asked, as one does whose lock is held by a goroutine
// that calls the connection.
type asking struct {
	context.Context
	conn *Conn
}

func (a asking) Done() <-chan struct{} {
	a.conn.Streams()
	return a.Context.Done()
}

func (a asking) Err() error {
	a.conn.Streams()
	return a.Context.Err()
}

// TestContextsAreAskedWithoutLocks: a Write that waits for the window and an Open that waits for its turn ask their
// contexts while no lock of the connection is held.
func TestContextsAreAskedWithoutLocks(t *testing.T) {
	p := newPair(t, jitterWiring(faultnet.Memory), Config{}, Config{MaxStreams: 1})
	p.sh.hold = true // gives no window back
	p.do(t, nil)     // before the response came the server's settings, which admit one stream
	within := func(what string, f func(context.Context) error) {
		t.Helper()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- f(asking{ctx, p.c}) }()
		time.AfterFunc(10*time.Millisecond, cancel)
		select {
		case err := <-ended:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", what, err)
			}
		case <-time.After(20 * time.Second):
			panic(what + " asks its context with a lock held") // nothing can be closed
		}
	}
	s, err := p.c.Open(t.Context(), newCall(), &Out{Block: testRequest, Ending: More})
	if err != nil {
		t.Fatal(err)
	}
	within("Write", func(ctx context.Context) error {
		for {
			if err := s.Write(ctx, &Out{Data: p.pool.Get(64 << 10)}); err != nil {
				return err
			}
		}
	})
	within("Open", func(ctx context.Context) error {
		_, err := p.c.Open(ctx, newCall(), &Out{Block: testRequest, Ending: End})
		return err
	})
	s.Reset(Cancel)
	s.Release()
}
