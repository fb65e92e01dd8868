package smb_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
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

// longest is how many bytes a file may have that is written in one frame. One that is read must be shorter, so that the reply
// shows its end.
const longest = 64 << 10

// TestOneFrame sends one frame for each call on a small file, from dialect 2.1 on and for each length that fits.
func TestOneFrame(t *testing.T) {
	servers := map[string]func() *script.Server{
		"plain/2.1":     func() *script.Server { return &script.Server{Dialect: proto.Dialect210} },
		"signed/2.1":    func() *script.Server { return &script.Server{Dialect: proto.Dialect210, Signed: true} },
		"plain/3.0":     func() *script.Server { return &script.Server{Dialect: proto.Dialect300} },
		"encrypted/3.0": func() *script.Server { return protections()["encrypted/3.0"] },
		"signed/3.0.2":  func() *script.Server { return &script.Server{Dialect: proto.Dialect302, Signed: true} },
	}
	for _, kind := range kinds() {
		servers[kind] = func() *script.Server { return protections()[kind] }
	}
	for name, server := range servers {
		for _, length := range []int{0, 1, 4096, longest - 1, longest} {
			t.Run(fmt.Sprintf("%s/%d", name, length), func(t *testing.T) { testOneFrame(t, server(), length) })
		}
	}
}

func testOneFrame(t *testing.T, s *script.Server, length int) {
	var frames atomic.Int32
	s.Size = int64(length)
	f, err := scripted(t, s, smb.Dialer{DialFunc: func(ctx context.Context, n, a string) (net.Conn, error) {
		nc, err := through(t, s.Dial)(ctx, n, a)
		return countedConn{nc, &frames}, err
	}})
	must(t, err)
	share, data := f.Share(), make([]byte, length)
	calls := map[string]func() error{
		"WriteFile":    func() error { return share.WriteFile("file", data, 0o666) },
		"WriteNewFile": func() error { return share.WriteNewFile("file", data, 0o666, time.Unix(1e9, 0)) },
		"Stat":         func() error { _, err := share.Stat("file"); return err },
		"Chtimes":      func() error { return share.Chtimes("file", time.Time{}, time.Unix(1e9, 0)) },
		"Rename":       func() error { return share.Rename("file", "other") },
		"Remove":       func() error { return share.Remove("file") },
	}
	if length > 0 && length < longest { // to the scripted server 0 is another length
		calls["ReadFile"] = func() error { _, err := share.ReadFile("file"); return err }
		calls["ReadFileInfo"] = func() error { _, _, err := share.ReadFileInfo("file"); return err }
	}
	if length == 0 {
		delete(calls, "WriteFile") // and so the file is cut
	}
	for name, use := range calls {
		frames.Store(0)
		if err := use(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if n := frames.Load(); n != 1 {
			t.Errorf("%s: %d frames", name, n)
		}
	}
	frames.Store(0)
	must(t, share.ReplaceFile("file", data, 0o666, time.Unix(1e9, 0)))
	if n := frames.Load(); n != 2 {
		t.Errorf("ReplaceFile: %d frames", n)
	}
}
