package smb_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// modes are the three ways a session may be protected.
func modes() []rig.Mode { return []rig.Mode{rig.Plain, rig.Signed, rig.Encrypted} }

// kinds are the scripted servers of the three ways.
func kinds() []string { return []string{"plain", "signed/GMAC", "encrypted/GCM"} }

// TestReadFromAcrossLoss loses connections while a stream is being written: each reply is verified with the
// keys of its own connection, and the file is complete.
func TestReadFromAcrossLoss(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			want := random(20 << 20)
			disk := make([]byte, len(want))
			var mu sync.Mutex // several connections may be served at once
			writes := 0
			s := protections()[kind]
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				mu.Lock()
				defer mu.Unlock()
				switch m.Command {
				case proto.CommandCreate:
					c.Opened(m, durableGrant(), func(b []byte) { b[2] = byte(proto.OplockBatch) })
					return true
				case proto.CommandWrite:
					if writes++; writes%9 == 0 {
						c.Close()
						return true
					}
					off, n := le.Uint64(m.Body[8:]), le.Uint32(m.Body[4:])
					copy(disk[off:], m.Body[48:][:n])
				}
				return false
			}
			d := smb.Dialer{Initiator: fixedKey{}, DialFunc: through(t, s.Dial), Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}}
			sess, err := d.Dial(t.Context(), "scripted")
			must(t, err)
			defer sess.Close()
			share, err := sess.Mount(t.Context(), "share")
			must(t, err)
			f, err := share.Create("f")
			must(t, err)
			if n, err := f.ReadFrom(struct{ io.Reader }{bytes.NewReader(want)}); n != int64(len(want)) || err != nil {
				t.Fatal(n, err)
			}
			mu.Lock()
			defer mu.Unlock()
			if !bytes.Equal(disk, want) {
				t.Error("the disk has other content")
			}
			if writes < 40 {
				t.Errorf("%d writes: nothing was repeated", writes)
			}
		})
	}
}

// Sequential reading sees data written through the same session, as with os.File.
func TestReadAfterChange(t *testing.T) {
	for _, mode := range modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			share := mount(t, srv, smb.Dialer{})
			const size, piece = 8 << 20, 64 << 10
			for name, change := range map[string]func(f *smb.File, at int64, b []byte) error{
				"WriteAt": func(f *smb.File, at int64, b []byte) error { _, err := f.WriteAt(b, at); return err },
				"another File": func(f *smb.File, at int64, b []byte) error {
					g, err := share.OpenFile("F", os.O_RDWR, 0)
					if err != nil {
						return err
					}
					_, err = g.WriteAt(b, at)
					return errors.Join(err, g.Close())
				},
				"another mount": func(f *smb.File, at int64, b []byte) error {
					again, err := share.Session().Mount(t.Context(), strings.ToUpper(srv.Share))
					if err != nil {
						return err
					}
					g, err := again.OpenFile("f", os.O_RDWR, 0)
					if err != nil {
						return err
					}
					_, err = g.WriteAt(b, at)
					return errors.Join(err, g.Close(), again.Unmount())
				},
			} {
				must(t, share.WriteFile("f", random(size), 0o666))
				f, err := share.OpenFile("f", os.O_RDWR, 0)
				must(t, err)
				p := make([]byte, piece)
				for range 5 {
					_, err := io.ReadFull(f, p)
					must(t, err)
				}
				want := random(piece)
				must(t, change(f, 5*piece, want))
				if _, err := io.ReadFull(f, p); err != nil || !bytes.Equal(p, want) {
					t.Errorf("%s: read old bytes, %v", name, err)
				}
				for range 4 {
					_, err := io.ReadFull(f, p)
					must(t, err)
				}
				must(t, f.Truncate(11*piece))
				if n, err := io.Copy(io.Discard, f); n != piece || err != nil {
					t.Errorf("%s: %d bytes after Truncate, %v", name, n, err)
				}
				must(t, share.Truncate("f", 20*piece))
				if n, err := io.Copy(io.Discard, f); n != 9*piece || err != nil {
					t.Errorf("%s: %d bytes after it grew, %v", name, n, err)
				}
				must(t, f.Close())
			}
		})
	}
}

// TestSeekWhileReading moves the position while there is read-ahead for another one.
func TestSeekWhileReading(t *testing.T) {
	for _, kind := range kinds() {
		s := protections()[kind]
		s.Size = 4 << 20
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		p := make([]byte, 10_000)
		for name, use := range map[string]func() []byte{
			"Read": func() []byte { n, _ := io.ReadFull(f, p); return p[:n] },
			"WriteTo": func() []byte {
				var b bytes.Buffer
				f.WriteTo(&b)
				return b.Bytes()
			},
		} {
			for _, to := range []int64{0, 777, 3 << 20} {
				for range 6 {
					_, err := io.ReadFull(f, p)
					must(t, err)
				}
				_, err := f.Seek(to, io.SeekStart)
				must(t, err)
				for i, b := range use() {
					if b != script.At(to+int64(i)) {
						t.Fatalf("%s, %s after Seek(%d): wrong byte at %d", kind, name, to, i)
					}
				}
				_, err = f.Seek(0, io.SeekStart)
				must(t, err)
			}
		}
	}
}

// cancellingWriter ends a context in its first write.
type cancellingWriter struct {
	cancel func()
	writes int
}

func (w *cancellingWriter) Write(p []byte) (int, error) {
	w.cancel()
	w.writes++
	return len(p), nil
}

// A stream ends when its context ends, whether or not data is buffered.
func TestStreamsEndWithContext(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			s := protections()[kind]
			s.Size = 64 << 20
			f, err := scripted(t, s, smb.Dialer{})
			must(t, err)
			ctx, cancel := context.WithCancel(t.Context())
			w := &cancellingWriter{cancel: cancel}
			if n, err := f.WithContext(ctx).WriteTo(w); !errors.Is(err, context.Canceled) || w.writes != 1 {
				t.Errorf("WriteTo: %d bytes in %d writes, %v", n, w.writes, err)
			}
			ctx, cancel = context.WithCancel(t.Context())
			g := f.WithContext(ctx)
			p := make([]byte, 4096)
			for range 10 {
				_, err := g.Read(p)
				must(t, err)
			}
			cancel()
			if n, err := g.Read(p); n != 0 || !errors.Is(err, context.Canceled) {
				t.Errorf("a buffered Read under an ended context: %d, %v", n, err)
			}
			ctx, cancel = context.WithCancel(t.Context())
			r := readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
			if n, err := f.WithContext(ctx).ReadFrom(r); !errors.Is(err, context.Canceled) || n > 16<<20 {
				t.Errorf("ReadFrom: %d, %v", n, err)
			}
			if n, err := f.Read(p); n != len(p) || err != nil { // with the file's own context
				t.Error(n, err)
			}
		})
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// writerFunc is a writer without other methods.
type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// OperationTimeout bounds streams, too.
func TestOperationTimeoutOfStream(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	eachKind(t, func(t *testing.T, s *script.Server) {
		synctest.Test(t, func(t *testing.T) { testOperationTimeoutOfStream(t, s) })
	})
}

func testOperationTimeoutOfStream(t *testing.T, s *script.Server) {
	s.Size = 64 << 20
	f, err := scripted(t, s, smb.Dialer{Limits: smb.Limits{OperationTimeout: time.Second}})
	must(t, err)
	begun := time.Now()
	w := writerFunc(func(p []byte) (int, error) { <-time.After(300 * time.Millisecond); return len(p), nil })
	if _, err := f.WriteTo(w); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error(err)
	}
	if d := time.Since(begun); d > 2*time.Second {
		t.Errorf("ended after %v", d)
	}
}

// Close and Unmount return although the server does not answer, and CLOSE is sent even if the context has
// ended.
func TestCloseOfSilentServer(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	eachKind(t, func(t *testing.T, s *script.Server) {
		synctest.Test(t, func(t *testing.T) { testCloseOfSilentServer(t, s) })
	})
}

func testCloseOfSilentServer(t *testing.T, s *script.Server) {
	var closes atomic.Int64
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		if m.Command == proto.CommandClose {
			closes.Add(1)
		}
		return m.Command == proto.CommandClose || m.Command == proto.CommandTreeDisconnect
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	begun := time.Now()
	if err := f.WithContext(ctx).Close(); !errors.Is(err, os.ErrDeadlineExceeded) || closes.Load() != 1 {
		t.Errorf("Close: %v, %d sent", err, closes.Load())
	}
	if err := f.Share().Unmount(); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Unmount: %v", err)
	}
	if d := time.Since(begun); d > time.Minute {
		t.Errorf("ended after %v", d)
	}
}

// Read-ahead in many files stays within the session's budget, idle files return their part, and Close frees
// everything.
func TestReadAheadBudget(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := protections()[kind]
				pool := newPool(t)
				const budget = 16 << 20
				f, err := scripted(t, s, smb.Dialer{Pool: pool, Limits: smb.Limits{ReadAhead: budget}})
				must(t, err)
				share := f.Share()
				p := make([]byte, 32<<10)
				var files []*smb.File
				for range 50 {
					f, err := share.Open("file")
					must(t, err)
					files = append(files, f)
					for i := range 8 {
						n, err := io.ReadFull(f, p)
						must(t, err)
						if p[0] != script.At(int64(i*n)) {
							t.Fatal("wrong byte")
						}
					}
				}
				synctest.Wait()       // what was asked for has come
				const slack = 2 << 20 // receive buffers, rounding up to size classes
				if got := pool.Stats().InUse; got > budget+budget/8+slack {
					t.Errorf("%d bytes in use by 50 files", got)
				}
				<-time.After(3 * time.Second)
				synctest.Wait()
				if got := pool.Stats().InUse; got > slack {
					t.Errorf("%d bytes in use by idle files", got)
				}
				for _, f := range files[:10] {
					_, err := io.ReadFull(f, p)
					must(t, err)
					_, err = io.ReadFull(f, p)
					must(t, err)
				}
				must(t, share.Session().Close())
				if got := pool.Stats().InUse; got != 0 {
					t.Errorf("%d bytes in use after Close", got)
				}
			})
		})
	}
}

// TestCloseFreesReadAhead closes a file whose context has ended while it is being read: the read-ahead is
// freed before the session ends.
func TestCloseFreesReadAhead(t *testing.T) {
	eachKind(t, testCloseFreesReadAhead)
}

func testCloseFreesReadAhead(t *testing.T, s *script.Server) {
	pool := newPool(t)
	f, err := scripted(t, s, smb.Dialer{Pool: pool})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	g := f.WithContext(ctx)
	entered, closed := make(chan struct{}), make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		first := true
		g.WriteTo(writerFunc(func(p []byte) (int, error) {
			if first {
				first = false
				close(entered)
				<-closed
			}
			return len(p), nil
		}))
	}()
	<-entered
	cancel()
	must(t, g.Close())
	close(closed)
	<-done
	must(t, f.Share().Session().Echo(t.Context())) // replies to cancelled requests have arrived before this one
	if got := pool.Stats().InUse; got > 128<<10 {
		t.Errorf("%d bytes in use", got)
	}
}
