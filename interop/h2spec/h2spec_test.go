package h2spec

import (
	"net"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"

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

// exceptions are the cases that a server which offers frames of 1 MiB cannot pass,
// with the reason. With frames of 16 KiB there are none.
var exceptions = map[string]string{
	"http2/4.2: Sends a DATA frame with 2^14 octets in length": "the case sends one frame of the size offered, " +
		"1 MiB, whatever the stream's window of 256 KiB: the stream is reset with FLOW_CONTROL_ERROR",
	"http2/4.2: Sends a large size HEADERS frame that exceeds the SETTINGS_MAX_FRAME_SIZE": "the case takes 20 kB " +
		"of header for more than a frame holds, which it is not when frames of 1 MiB are offered",
}

func TestH2Spec(t *testing.T) {
	t.Run("default", func(t *testing.T) { run(t, h2.Config{}, exceptions) })
	t.Run("small frames", func(t *testing.T) { run(t, h2.Config{MaxFrameSize: 16384}, nil) })
}

func run(t *testing.T, cfg h2.Config, except map[string]string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
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
	c := &config.Config{
		Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, Path: "/",
		Timeout: 2 * time.Second, MaxHeaderLen: 4000, Strict: true,
	}
	passed, skipped, failed := 0, 0, 0
	for _, g := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
		g.Test(c)
		passed += g.PassedCount
		skipped += g.SkippedCount
		failed += g.FailedCount
		report(t, g, except)
	}
	t.Logf("%d cases: %d passed, %d skipped, %d failed", passed+skipped+failed, passed, skipped, failed)
}

// report logs the exceptions and fails the test for other cases that did not pass.
func report(t *testing.T, g *spec.TestGroup, except map[string]string) {
	t.Helper()
	cases := append(append([]*spec.TestCase(nil), g.Tests...), g.StrictTests...)
	for _, c := range cases {
		if c.Result == nil || !c.Result.Failed && !c.Result.Skipped {
			continue
		}
		name := g.ID() + ": " + c.Desc
		if why, ok := except[name]; ok {
			t.Logf("%s: %s", name, why)
			continue
		}
		t.Errorf("%s: failed=%v skipped=%v\n%v", name, c.Result.Failed, c.Result.Skipped, c.Result.Error)
	}
	for _, sub := range g.Groups {
		report(t, sub, except)
	}
}
