package smb_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestContextEndsWhileShareConnects ends the context of Session.Mount while the server handles TREE_CONNECT, or the request
// behind it that validates NEGOTIATE. The share is disconnected again.
func TestContextEndsWhileShareConnects(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for kind, held := range map[string]proto.Command{
		"plain": proto.CommandTreeConnect, "signed/GMAC": proto.CommandTreeConnect, "encrypted/GCM": proto.CommandTreeConnect,
		"encrypted/3.0": proto.CommandIoctl,
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent sentCommands
				answer := make(chan struct{})
				s := protections()[kind]
				s.Hook = func(_ *script.Conn, m *script.Message) bool {
					sent.add(m.Command)
					if m.Command == held {
						<-answer
					}
					return false
				}
				d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), DialFunc: through(t, s.Dial), Limits: smb.Limits{KeepAlive: -1}}
				session, err := d.Dial(t.Context(), "scripted")
				must(t, err)
				defer session.Close()
				ctx, cancel := context.WithCancel(t.Context())
				mounted := make(chan error)
				go func() {
					_, err := session.Mount(ctx, "share")
					mounted <- err
				}()
				synctest.Wait()
				cancel()
				if err := <-mounted; !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want %v", err, context.Canceled)
				}
				close(answer)
				synctest.Wait()
				if c, d := sent.count(proto.CommandTreeConnect), sent.count(proto.CommandTreeDisconnect); c != 1 || d != 1 {
					t.Errorf("%d connected, %d disconnected", c, d)
				}
			})
		})
	}
}

// TestUnmountWhileShareConnects unmounts a share that another call connects again on a new connection: that call fails, and
// the share is disconnected again.
func TestUnmountWhileShareConnects(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent sentCommands
				var first *script.Conn
				answer := make(chan struct{})
				s := protections()[kind]
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					sent.add(m.Command)
					if first == nil {
						first = c
					}
					if m.Command == proto.CommandTreeConnect && c != first {
						<-answer
					}
					return false
				}
				f, err := scripted(t, s, smb.Dialer{})
				must(t, err)
				share := f.Share()
				first.Close()
				synctest.Wait()
				ended := make(chan error)
				go func() {
					_, err := share.Stat("file")
					ended <- err
				}()
				synctest.Wait()
				must(t, share.Unmount())
				close(answer)
				if err := <-ended; !errors.Is(err, smb.ErrClosed) {
					t.Errorf("%v, want %v", err, smb.ErrClosed)
				}
				synctest.Wait()
				if c, d := sent.count(proto.CommandTreeConnect), sent.count(proto.CommandTreeDisconnect); c != 2 || d != 1 {
					t.Errorf("%d connected, %d disconnected", c, d)
				}
			})
		})
	}
}
