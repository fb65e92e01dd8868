package smb2_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	smb2 "github.com/tarn-go/tarn/smb/gosmb2"
)

// Copies between two files of a share are made by the server, from position to position, and no data passes
// through the client.
func TestServerSideCopy(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) { serverSideCopy(t, rigtest.Start(t, rig.Config{Mode: mode})) })
	}
}

// countingConn counts what is sent and received.
type countingConn struct {
	net.Conn
	bytes *atomic.Int64
}

func (c countingConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.bytes.Add(int64(n))
	return n, err
}

func serverSideCopy(t *testing.T, srv *rig.Server) {
	var travelled atomic.Int64
	d := dialer(t, srv)
	d.SMB.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, addr)
		return countingConn{c, &travelled}, err
	}
	s, err := d.Dial(t.Context(), srv.Addr)
	must(t, err)
	t.Cleanup(func() { must(t, s.Logoff()) })
	share, err := s.Mount(srv.Share)
	must(t, err)
	for _, how := range []string{"ReadFrom", "WriteTo"} {
		data := bytes.Repeat([]byte("0123456789"), 300<<10)
		if err := share.WriteFile("src", data, 0o666); err != nil {
			t.Fatal(err)
		}
		src, err := share.Open("src")
		if err != nil {
			t.Fatal(err)
		}
		dst, err := share.Create("dst")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := dst.WriteString("head"); err != nil {
			t.Fatal(err)
		}
		if _, err := src.Seek(10, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		var n int64
		before := travelled.Load()
		if how == "ReadFrom" {
			n, err = dst.ReadFrom(src)
		} else {
			n, err = src.WriteTo(dst)
		}
		if n != int64(len(data)-10) || err != nil {
			t.Errorf("%s: %d, %v", how, n, err)
		}
		if bytes := travelled.Load() - before; bytes > int64(len(data)/10) {
			t.Errorf("%s: %d bytes travelled", how, bytes)
		}
		for f, want := range map[*smb2.File]int64{src: int64(len(data)), dst: int64(len(data) - 6)} {
			if at, err := f.Seek(0, io.SeekCurrent); at != want || err != nil {
				t.Errorf("%s: %s at %d, want %d, %v", how, f.Name(), at, want, err)
			}
		}
		if n, err := dst.ReadFrom(src); n != 0 || err != nil { // src is at its end
			t.Errorf("%s again: %d, %v", how, n, err)
		}
		a, err := src.Stat()
		if err != nil {
			t.Fatal(err)
		}
		b, err := dst.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if x, y := a.(*smb2.FileStat).FileId, b.(*smb2.FileStat).FileId; x == 0 || y == 0 || x == y {
			t.Errorf("file ids %d and %d", x, y)
		}
		for _, f := range []*smb2.File{src, dst} {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
		got, err := share.ReadFile("dst")
		if err != nil || string(got) != "head"+string(data[10:]) {
			t.Errorf("%s: %d bytes, %v", how, len(got), err)
		}
		if n, err := dst.ReadFrom(src); n != 0 || err == nil {
			t.Errorf("%s of closed files: %d, %v", how, n, err)
		}
	}
}

// TestCopyToAppended copies to files that are opened for appending: what they have stays, and the copy follows it.
func TestCopyToAppended(t *testing.T) {
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			s, err := dialer(t, srv).Dial(t.Context(), srv.Addr)
			must(t, err)
			t.Cleanup(func() { must(t, s.Logoff()) })
			share, err := s.Mount(srv.Share)
			must(t, err)
			must(t, share.WriteFile("src", []byte("new"), 0o666))
			for _, flag := range []int{os.O_WRONLY, os.O_RDWR} {
				for how, move := range map[string]func(dst, src *smb2.File) (int64, error){
					"ReadFrom": func(dst, src *smb2.File) (int64, error) { return dst.ReadFrom(src) },
					"WriteTo":  func(dst, src *smb2.File) (int64, error) { return src.WriteTo(dst) },
				} {
					must(t, share.WriteFile("dst", []byte("old "), 0o666))
					src, err := share.Open("src")
					must(t, err)
					dst, err := share.OpenFile("dst", flag|os.O_APPEND, 0)
					must(t, err)
					if n, err := move(dst, src); n != 3 || err != nil {
						t.Errorf("%s, flags %#x: %d, %v", how, flag, n, err)
					}
					must(t, dst.Close())
					must(t, src.Close())
					if b, err := share.ReadFile("dst"); string(b) != "old new" || err != nil {
						t.Errorf("%s, flags %#x: %q, %v", how, flag, b, err)
					}
				}
			}
		})
	}
}
