package smb_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
)

// countedConn counts the frames that a client sends, over a net.Pipe: one Write each.
type countedConn struct {
	net.Conn
	frames *atomic.Int32
}

func (c countedConn) Write(p []byte) (int, error) {
	c.frames.Add(1)
	return c.Conn.Write(p)
}

// TestOneFrame sends one frame for each call on a small file.
func TestOneFrame(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			var frames atomic.Int32
			s := protections()[kind]
			s.Size = 4096
			f, err := scripted(t, s, smb.Dialer{DialFunc: func(ctx context.Context, n, a string) (net.Conn, error) {
				nc, err := through(t, s.Dial)(ctx, n, a)
				return countedConn{nc, &frames}, err
			}})
			must(t, err)
			share, data := f.Share(), make([]byte, 4096)
			for name, use := range map[string]func() error{
				"ReadFile":     func() error { _, err := share.ReadFile("file"); return err },
				"ReadFileInfo": func() error { _, _, err := share.ReadFileInfo("file"); return err },
				"WriteFile":    func() error { return share.WriteFile("file", data, 0o666) },
				"WriteNewFile": func() error { return share.WriteNewFile("file", data, 0o666, time.Unix(1e9, 0)) },
				"ReplaceFile":  func() error { return share.ReplaceFile("file", data, 0o666, time.Unix(1e9, 0)) },
				"Stat":         func() error { _, err := share.Stat("file"); return err },
				"Chtimes":      func() error { return share.Chtimes("file", time.Time{}, time.Unix(1e9, 0)) },
				"Rename":       func() error { return share.Rename("file", "other") },
				"Remove":       func() error { return share.Remove("file") },
			} {
				frames.Store(0)
				if err := use(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if n := frames.Load(); n != 1 {
					t.Errorf("%s: %d frames", name, n)
				}
			}
		})
	}
}
