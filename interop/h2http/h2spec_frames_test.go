package h2http

import (
	"net"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
)

// answer refuses what is not gRPC, as package rpc does: 415 and a small body.
type answer struct{ pool *tarn.Pool }

var refusal = h2.NewBlock(h2.Field{Name: ":status", Value: "415"}, h2.Field{Name: "content-type", Value: "text/plain"})

func (a answer) OnHeaders(s *h2.Stream, h *h2.Header, e h2.Ending) {
	if e == h2.End {
		a.refuse(s)
	}
}

func (a answer) OnData(s *h2.Stream, b tarn.Buffer, e h2.Ending) {
	if n := b.Len(); n > 0 {
		s.Consumed(n)
	}
	b.Free()
	if e == h2.End {
		a.refuse(s)
	}
}

func (a answer) OnReset(s *h2.Stream, err error) {
	if s.Value == nil {
		s.Release()
	}
}

// refuse answers on a separate goroutine, since the peer's window may be closed.
func (a answer) refuse(s *h2.Stream) {
	s.Value = a
	go func() {
		defer s.Release()
		s.Write(nil, &h2.Out{Block: refusal, Data: a.pool.Copy([]byte("not gRPC")), Ending: h2.End})
	}()
}

// The server of package h2 alone, without h2http.
func TestH2SpecOfFrames(t *testing.T) {
	t.Run("default", func(t *testing.T) { suite(t, frameServer(t, h2.Config{}), plain, exceptions) })
	t.Run("small frames", func(t *testing.T) { suite(t, frameServer(t, h2.Config{MaxFrameSize: 16384}), plain, nil) })
}

// frameServer runs a server on package h2 until the test ends, and returns its port.
func frameServer(t *testing.T, cfg h2.Config) int {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	cfg.Pool, err = tarn.NewPool(tarn.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			c, err := h2.NewServer(nc, answer{cfg.Pool}, cfg)
			if err != nil {
				t.Error(err)
				return
			}
			go c.Run()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}
