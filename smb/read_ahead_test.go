package smb_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestReadGrownFile reads files that were empty when they were opened in as few READs as one whose length is known.
func TestReadGrownFile(t *testing.T) {
	const size = 8 << 20
	for name, grow := range map[string]func(f *smb.File) error{
		"by ReadFrom": func(f *smb.File) error {
			if _, err := f.ReadFrom(io.LimitReader(zeros{}, size)); err != nil {
				return err
			}
			_, err := f.Seek(0, io.SeekStart)
			return err
		},
		"by another client": func(*smb.File) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			eachKind(t, func(t *testing.T, s *script.Server) {
				var reads atomic.Int32
				s.Size = size
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					switch m.Command {
					case proto.CommandCreate:
						c.Opened(m, nil, func(b []byte) { le.PutUint64(b[48:], 0) })
						return true
					case proto.CommandRead:
						reads.Add(1)
					}
					return false
				}
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				must(t, grow(f))
				n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 64<<10))
				if n != size || err != nil {
					t.Errorf("read %d bytes, %v", n, err)
				}
				if reads.Load() > 24 {
					t.Errorf("%d READs", reads.Load())
				}
			})
		})
	}
}

// endsAfter is a context that ends when it has been asked n times whether it has.
type endsAfter struct {
	context.Context
	left atomic.Int32
}

func (c *endsAfter) Err() error {
	if c.left.Add(-1) < 0 {
		return context.Canceled
	}
	return nil
}

// TestReadAheadOfEndedContext reads a file under two contexts: the end of one does not fail reads under the other.
func TestReadAheadOfEndedContext(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		share := mount(t, srv, smb.Dialer{})
		want := random(16 << 20)
		must(t, share.WriteFile("f", want, 0o600))
		for n := range int32(12) {
			f, err := share.OpenFile("f", os.O_RDONLY, 0)
			must(t, err)
			var got []byte
			b := make([]byte, 300_000)
			for i := 0; ; i++ {
				g := f
				ends := &endsAfter{Context: t.Context()}
				ends.left.Store(n)
				if i%2 == 1 {
					g = f.WithContext(ends)
				}
				m, err := g.Read(b)
				got = append(got, b[:m]...)
				if err == io.EOF {
					break
				}
				if err != nil && (g == f || ends.left.Load() >= 0) {
					t.Errorf("ended after %d: read %d: %v", n, i, err)
					break
				}
				if i > 1000 {
					t.Fatal("no end")
				}
			}
			if !bytes.Equal(got, want) {
				t.Errorf("ended after %d: read %d bytes of %d", n, len(got), len(want))
			}
			must(t, f.Close())
		}
	})
}

// zeros is an endless reader.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
