//go:build unix

package smb_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
)

// held is a connection that calls sent with each request that is found by want, before it is sent. From then on replies wait for release.
type held struct {
	net.Conn
	want    func(request []byte) bool
	sent    func()
	holding atomic.Bool
	release chan struct{}
}

func (h *held) Write(p []byte) (int, error) {
	found := h.want(p) && h.holding.CompareAndSwap(false, true)
	n, err := h.Conn.Write(p)
	if found {
		h.sent()
	}
	return n, err
}

func (h *held) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if h.holding.Load() {
		<-h.release
	}
	return n, err
}

// TestChmodReopenedCancelled ends the context of File.Chmod while it opens a file by its name, after a loss. The server has the file open no
// longer than it takes to answer: it can be replaced.
func TestChmodReopenedCancelled(t *testing.T) {
	srv, _, _ := startPOSIX(t, rig.Plain)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	release := make(chan struct{})
	var conns []*held
	opensToSet := func(p []byte) bool {
		at := bytes.Index(p, []byte("\xfeSMB"))
		return at >= 0 && len(p) >= at+92 && proto.Command(le.Uint16(p[at+12:])) == proto.CommandCreate &&
			proto.Access(le.Uint32(p[at+64+24:]))&proto.AccessWriteDAC != 0
	}
	d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: srv.Password}, POSIX: true, Pool: newPool(t),
		DialFunc: func(ctx context.Context, network, addr string) (net.Conn, error) {
			nc, err := new(net.Dialer).DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			conns = append(conns, &held{Conn: nc, want: opensToSet, sent: cancel, release: release})
			return conns[len(conns)-1], nil
		}}
	s, err := d.Dial(t.Context(), srv.Addr)
	must(t, err)
	defer s.Close()
	share, err := s.Mount(t.Context(), srv.Share)
	must(t, err)
	must(t, share.WriteFile("other", []byte("other"), 0o640))
	f, err := share.WithContext(ctx).OpenFile("file", os.O_RDWR|os.O_CREATE, 0o640)
	must(t, err)
	conns[0].Close()
	if err := f.Chmod(0o604); !errors.Is(err, context.Canceled) {
		t.Errorf("Chmod: %v", err)
	}
	close(release)
	if len(conns) != 2 || !conns[1].holding.Load() {
		t.Fatalf("%d connections, and the file was not opened by its name", len(conns))
	}
	f.Close()
	until, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if err := share.WithContext(until).Rename("other", "file"); err != nil {
		t.Errorf("the file is open: %v", err)
	}
}
