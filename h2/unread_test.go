package h2

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// amplifier posts DATA, or a header list, for each DATA frame, and counts what cannot be posted.
type amplifier struct {
	pool    *tarn.Pool
	size    int     // of DATA
	list    []Field // a header list; nil: none
	blocked int
}

func (h *amplifier) OnHeaders(s *Stream, _ *Header, _ Ending) {
	if h.size > 0 {
		s.Post(&Out{Block: testResponse})
	}
}
func (h *amplifier) OnReset(s *Stream, _ error) { s.Release() }
func (h *amplifier) OnData(s *Stream, b tarn.Buffer, _ Ending) {
	s.Consumed(b.Len())
	b.Free()
	if h.list != nil {
		s.Post(&Out{Fields: h.list})
	}
	if h.size > 0 && s.Post(&Out{Data: h.pool.Get(h.size)}) == ErrWouldBlock {
		h.blocked++
	}
}

// TestPostsNotRead: a peer that opens its windows, reads nothing and makes a handler post cannot have more than 2 MiB queued on its
// streams; Post says so, and posts again once the peer has read.
func TestPostsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, frames = 16 << 10, 2000
		h := &amplifier{pool: tarntest.NewPool(t), size: size}
		a, b := net.Pipe()
		toServer(t, a, b, h, Config{Pool: h.pool}, func(t *testing.T, _ *Maker, _ *Conn, r *raw) {
			io.WriteString(a, Preface)
			r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
			r.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
			r.request(1, More)
			for range frames {
				if err := r.fr.WriteData(1, false, []byte{0}); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
			// As much may be under way as waits.
			if posted := (frames - h.blocked) * size; posted < refuseAbove || posted > 2*refuseAbove+2*size {
				t.Errorf("%d bytes were posted", posted)
			}
			if held := h.pool.Stats().InUse; held > 4*refuseAbove {
				t.Errorf("%d bytes are in use", held)
			}
			go r.listen()
			synctest.Wait()
			before := h.blocked
			if err := r.fr.WriteData(1, false, []byte{0}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if h.blocked != before {
				t.Error("nothing can be posted although the peer has read all")
			}
		})
	})
}

// TestListsNotRead: what no window bounds, here header lists of a handler that posts one for each DATA frame, does not pile up for a peer
// that sends and reads nothing: its connection ends.
func TestListsNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 16 << 10
		h := &amplifier{pool: tarntest.NewPool(t), list: []Field{{Name: ":status", Value: "103"}, {Name: "x", Value: strings.Repeat("x", size)}}}
		a, b := net.Pipe()
		toServer(t, a, b, h, Config{Pool: h.pool}, func(t *testing.T, _ *Maker, s *Conn, r *raw) {
			io.WriteString(a, Preface)
			r.fr.WriteSettings()
			r.request(1, More)
			const most = 100_000 // far more than are needed: the receive buffer has thousands of these frames
			sent := 0
			for ; sent < most && r.fr.WriteData(1, false, []byte{0}) == nil; sent++ {
			}
			if sent == most {
				t.Fatalf("%d lists are queued", sent)
			}
			<-s.Done()
			var ce *ConnError
			if err := s.Err(); !errors.As(err, &ce) || ce.Code != EnhanceYourCalm || ce.Fault != Peer {
				t.Errorf("after %d frames the connection ended with %v", sent, err)
			}
		})
	})
}
