package smb2_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/smb"
	smb2 "github.com/tarn-go/tarn/smb/gosmb2"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	"github.com/tarn-go/tarn/tarntest"
)

// scriptedLogin logs in to scripted servers.
type scriptedLogin struct{}

func (scriptedLogin) Start(context.Context, string) (smb.SecurityContext, error) {
	return script.Start(), nil
}

// TestEcho: Echo asks the server unless it has just sent something, and fails at once when the connection has ended.
func TestEcho(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var echoes atomic.Int32
		var conn atomic.Pointer[script.Conn]
		s := &script.Server{Hook: func(c *script.Conn, m *script.Message) bool {
			conn.Store(c)
			if m.Command == proto.CommandEcho {
				echoes.Add(1)
			}
			return false
		}}
		d := smb2.Dialer{SMB: smb.Dialer{Initiator: scriptedLogin{}, Pool: tarntest.NewPool(t), Limits: smb.Limits{KeepAlive: -1}}}
		nc, err := s.Dial(t.Context(), "tcp", "scripted")
		must(t, err)
		session, err := d.DialConn(t.Context(), nc, "scripted")
		must(t, err)
		defer session.SMB().Close()
		check := func(want int32) {
			t.Helper()
			if err := session.Echo(); err != nil {
				t.Error(err)
			}
			if n := echoes.Load(); n != want {
				t.Errorf("%d ECHOs, want %d", n, want)
			}
		}
		check(0) // the login has just ended
		<-time.After(20 * time.Millisecond)
		check(1)
		check(1)
		_, err = session.Mount("share")
		must(t, err)
		<-time.After(20 * time.Millisecond)
		check(2)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := session.WithContext(ended).Echo(); err == nil {
			t.Error("an Echo under an ended context succeeded")
		}
		conn.Load().Close()
		synctest.Wait()
		if err := session.Echo(); !errors.Is(err, smb.ErrConnLost) {
			t.Errorf("after the end of the connection: %v", err)
		}
	})
}
