package h2

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/internal/faultnet"
)

// leaving is what the tests of LeaveData open a stream with.
func leaving(c *Conn, body []byte) *Out {
	return &Out{Block: testRequest, Data: c.cfg.Pool.Copy(body), Ending: End, LeaveData: true}
}

// TestLeaveDataThatFits: DATA for which the windows have room is sent by Open, with END_STREAM, and is not the
// caller's any more. An empty Data is freed, and END_STREAM is on the HEADERS.
func TestLeaveDataThatFits(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		r, c, _ := rawClient(t, Config{})
		for _, n := range []int{100, 0} {
			o := leaving(c, make([]byte, n))
			s, err := c.Open(context.Background(), newCall(), o)
			if err != nil {
				t.Fatal(err)
			}
			if !o.Data.IsZero() {
				t.Errorf("%d bytes: Open has left Data to the caller", n)
			}
			last, _ := r.wait("END_STREAM", func(f seen) bool { return f.id == s.ID() && f.end })
			if n > 0 && (last.typ != http2.FrameData || last.n != n) || n == 0 && last.typ != http2.FrameHeaders {
				t.Errorf("%d bytes: the last frame is %+v", n, last)
			}
			s.Release()
		}
	})
}

// TestLeaveDataThatWouldWait: where a window has no room for all of the DATA, Open sends HEADERS without END_STREAM, none of
// the DATA, and leaves Data as it was to the caller, who sends it with Write.
func TestLeaveDataThatWouldWait(t *testing.T) {
	for name, w := range map[string]struct {
		stream uint32 // the stream's window; the connection's is 65,535 bytes
		size   int
	}{"stream": {10, 100}, "connection": {1 << 20, 70_000}} {
		t.Run(name, func(t *testing.T) {
			faultnet.EachSocket(t, func(t faultnet.OnKind) {
				r, c, _ := rawClient(t, Config{}, http2.Setting{ID: http2.SettingInitialWindowSize, Val: w.stream})
				body := bytes.Repeat([]byte("0123456789"), w.size/10)
				o := leaving(c, body)
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second) // for an Open that waits
				defer cancel()
				s, err := c.Open(ctx, newCall(), o)
				if err != nil {
					t.Fatal(err)
				}
				defer s.Release()
				if !bytes.Equal(o.Data.Bytes(), body) {
					t.Errorf("%d bytes of %d are left in Data, or others", o.Data.Len(), len(body))
				}
				r.fr.WritePing(false, [8]byte{}) // its answer comes after all that Open has sent
				r.wait("answer to the PING", func(f seen) bool { return f.typ == http2.FramePing && f.ack })
				head, _ := r.wait("HEADERS", func(f seen) bool { return f.id == s.ID() && f.typ == http2.FrameHeaders })
				data := func(f seen) bool { return f.id == s.ID() && f.typ == http2.FrameData }
				if n := r.count(data); head.end || n != 0 {
					t.Errorf("%d DATA frames have come, and the HEADERS are %+v", n, head)
				}
				r.fr.WriteWindowUpdate(0, 1<<20)
				r.fr.WriteWindowUpdate(s.ID(), 1<<20)
				if err := s.Write(ctx, &Out{Data: o.Data, Ending: End}); err != nil {
					t.Fatal(err)
				}
				r.wait("END_STREAM", func(f seen) bool { return data(f) && f.end })
				sent := 0
				r.count(func(f seen) bool {
					if data(f) {
						sent += f.n
					}
					return false
				})
				if sent != len(body) {
					t.Errorf("%d bytes of %d have come", sent, len(body))
				}
			})
		})
	}
}

// TestLeaveDataOfAnOpenThatFails: Open has freed Data, also where the DATA would have waited.
func TestLeaveDataOfAnOpenThatFails(t *testing.T) {
	done, cancel := context.WithCancel(context.Background())
	cancel()
	noStream := http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0}
	noWindow := http2.Setting{ID: http2.SettingInitialWindowSize, Val: 10}
	for name, f := range map[string]struct {
		setting http2.Setting
		ctx     context.Context
		before  func(c *Conn, o *Out)
		want    error
	}{
		"closed":          {noWindow, context.Background(), func(c *Conn, _ *Out) { c.Close() }, ErrClosed},
		"no stream":       {noStream, context.Background(), func(_ *Conn, o *Out) { o.NoWait = true }, ErrStreamLimit},
		"context is done": {noStream, done, func(*Conn, *Out) {}, context.Canceled},
		"without context": {noWindow, nil, func(*Conn, *Out) {}, ErrWouldBlock},
	} {
		t.Run(name, func(t *testing.T) {
			faultnet.EachSocket(t, func(t faultnet.OnKind) {
				_, c, _ := rawClient(t, Config{}, f.setting)
				o := leaving(c, make([]byte, 100))
				f.before(c, o)
				if _, err := c.Open(f.ctx, newCall(), o); !errors.Is(err, f.want) {
					t.Errorf("Open: %v, not %v", err, f.want)
				}
				if !o.Data.IsZero() || o.Opened { // the pool checks that it has been freed
					t.Errorf("Data has %d bytes, Opened is %t", o.Data.Len(), o.Opened)
				}
			})
		})
	}
}
