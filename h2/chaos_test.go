package h2

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/tarn-go/tarn"
)

// TestChaos makes calls of all sizes that are reset, cancelled, abandoned and answered
// early from both sides at once, on four connections one after the other, of which the
// third is shut down and the fourth breaks. Every call ends with an outcome, a response
// that arrives completely is what was sent, and everything is freed.
func TestChaos(t *testing.T) {
	forEachWiring(t, func(t *testing.T, w wiring) {
		for life := range 4 {
			p := newPair(t, w, Config{Window: 20_000, MaxWindow: 80_000}, Config{Window: 10_000, MaxWindow: 40_000, MaxStreams: 20})
			p.sh.serve = func(s *Stream, k *call) { disturb(p, s, k) }
			<-p.ch.gotSettings
			var wg sync.WaitGroup
			for i := range 12 {
				rnd := rand.New(rand.NewPCG(uint64(life), uint64(i)))
				wg.Add(1)
				go func() {
					defer wg.Done()
					for range 25 {
						attempt(t, p, rnd)
					}
				}()
			}
			if life == 2 {
				p.do(t, []byte("\x00before the end"))
				p.s.Shutdown("")
			}
			if life == 3 {
				p.s.NetConn().Close()
			}
			wg.Wait()
			if life < 2 {
				p.do(t, []byte("\x00after all"))
			}
			p.stop()
			if n, m := p.c.Streams(), p.s.Streams(); n != 0 || m != 0 {
				t.Errorf("streams left: %d and %d", n, m)
			}
		}
	})
}

// disturb answers a request in one of many ways, by its first byte.
func disturb(p *pair, s *Stream, k *call) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	kind := byte(0)
	if len(k.body) > 0 {
		kind = k.body[0]
	}
	switch kind % 8 {
	case 1:
		s.Reset(RefusedStream)
	case 2: // nothing: Release resets
	case 3:
		if s.Write(ctx, &Out{Block: testResponse}) == nil {
			s.Reset(InternalError)
		}
	case 4: // more than the windows hold, then nothing
		s.Write(ctx, &Out{Block: testResponse, Data: p.pool.Get(200_000)})
	case 5: // piece by piece
		s.Write(ctx, &Out{Block: testResponse})
		for body := k.body; len(body) > 0; {
			n := min(len(body), 3000)
			var c tarn.Chain
			c.Append(p.pool.Copy(body[:n/2]))
			c.Append(p.pool.Copy(body[n/2 : n]))
			if s.Write(ctx, &Out{Rest: &c}) != nil {
				return
			}
			body = body[n:]
		}
		s.Write(ctx, &Out{TrailerBlock: testTrailer})
	default:
		s.Write(ctx, &Out{Block: testResponse, Data: p.pool.Copy(k.body), TrailerBlock: testTrailer})
	}
}

// attempt makes one call and ends it in one of many ways.
func attempt(t *testing.T, p *pair, rnd *rand.Rand) {
	body := make([]byte, 1+rnd.IntN(1<<(4+rnd.IntN(13))))
	for i := range body {
		body[i] = byte(rnd.Uint32())
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	k := newCall()
	o := &Out{Block: testRequest, Data: p.pool.Copy(body), Ending: End}
	how := rnd.IntN(6)
	if how == 0 {
		o.Ending = More
	}
	if how == 1 {
		go cancel()
	}
	s, err := p.c.Open(ctx, k, o)
	if err != nil {
		return // cancelled, or the connection is ending
	}
	defer s.Release()
	switch how {
	case 0, 2:
		return // abandoned
	case 3:
		h := s.Handle()
		go h.Reset(Cancel)
		if rnd.IntN(2) == 0 {
			s.Reset(Cancel)
		}
		return
	}
	<-k.done
	k.mu.Lock()
	defer k.mu.Unlock()
	var se *StreamError
	switch {
	case k.err == nil && !bytes.Equal(k.body, body):
		t.Errorf("%d bytes sent, %d came back", len(body), len(k.body))
	case errors.As(k.err, &se) && se.Fault == Peer:
		t.Errorf("a side broke the protocol: %v", se)
	}
	var ce *ConnError
	if errors.As(k.err, &ce) && ce.Fault == Peer {
		t.Errorf("a side broke the protocol: %v", ce)
	}
}
