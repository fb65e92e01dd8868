package smb_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestLoginRefused loses a connection to a server that then refuses the user: one login is made, however many calls need the
// connection, and another after a quarter of an hour.
func TestLoginRefused(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, status := range []proto.Status{
		proto.StatusLogonFailure, proto.StatusWrongPassword, proto.StatusAccountLockedOut, proto.StatusAccountDisabled,
		proto.StatusAccountExpired, proto.StatusPasswordExpired, proto.StatusPasswordMustChange, proto.StatusAccessDenied,
	} {
		t.Run(status.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var logins atomic.Int32
				var refuse atomic.Bool
				s := &script.Server{}
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					if m.Command != proto.CommandSessionSetup {
						return false
					}
					logins.Add(1)
					if refuse.Load() {
						c.Refuse(m, status)
					}
					return refuse.Load()
				}
				var last net.Conn
				f, err := scripted(t, s, smb.Dialer{DialFunc: func(ctx context.Context, n, a string) (net.Conn, error) {
					nc, err := through(t, s.Dial)(ctx, n, a)
					last = nc
					return nc, err
				}})
				must(t, err)
				share := f.Share()
				last.Close()
				refuse.Store(true)
				calls := func(want int32) {
					t.Helper()
					logins.Store(0)
					ended := make(chan struct{})
					for range 5 {
						go func() {
							for range 5 {
								_, err := share.Stat("file")
								if !errors.Is(err, smb.ErrLogin) || !errors.Is(err, smb.Status(status)) || !errors.Is(err, fs.ErrPermission) ||
									errors.Is(err, smb.ErrConnLost) {
									t.Errorf("Stat: %v", err)
								}
							}
							ended <- struct{}{}
						}()
					}
					for range 5 {
						<-ended
					}
					if _, err := share.Glob("*"); !errors.Is(err, smb.ErrLogin) {
						t.Errorf("Glob: %v", err)
					}
					if n := logins.Load(); n != want {
						t.Errorf("%d logins, want %d", n, want)
					}
				}
				calls(1)
				<-time.After(14 * time.Minute)
				calls(0)
				<-time.After(time.Minute)
				calls(1)
				<-time.After(15 * time.Minute)
				refuse.Store(false)
				if _, err := share.Stat("file"); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestLoginOutOfOrder loses a connection to a server that then cannot log in anybody: each call tries again.
func TestLoginOutOfOrder(t *testing.T) {
	var down atomic.Bool
	s := &script.Server{}
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		if m.Command == proto.CommandSessionSetup && down.Load() {
			c.Refuse(m, proto.StatusNoLogonServers)
			return true
		}
		return false
	}
	var last net.Conn
	f, err := scripted(t, s, smb.Dialer{DialFunc: func(ctx context.Context, n, a string) (net.Conn, error) {
		nc, err := through(t, s.Dial)(ctx, n, a)
		last = nc
		return nc, err
	}})
	must(t, err)
	last.Close()
	down.Store(true)
	if _, err := f.Share().Stat("file"); !errors.Is(err, smb.Status(proto.StatusNoLogonServers)) || errors.Is(err, smb.ErrLogin) {
		t.Error(err)
	}
	down.Store(false)
	if _, err := f.Share().Stat("file"); err != nil {
		t.Error(err)
	}
}

// refusingInitiator logs in once, and then has no credentials.
type refusingInitiator struct{ starts int }

func (i *refusingInitiator) Start(context.Context, string) (smb.SecurityContext, error) {
	if i.starts++; i.starts > 1 {
		return nil, fs.ErrPermission
	}
	return script.Start(), nil
}

// TestLoginRefusedByInitiator: credentials that another server has refused are not tried by each call either.
func TestLoginRefusedByInitiator(t *testing.T) {
	s := &script.Server{}
	var i refusingInitiator
	var last net.Conn
	d := smb.Dialer{Initiator: &i, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}, DialFunc: func(ctx context.Context, n, a string) (net.Conn, error) {
		nc, err := through(t, s.Dial)(ctx, n, a)
		last = nc
		return nc, err
	}}
	sess, err := d.Dial(t.Context(), "scripted")
	must(t, err)
	defer sess.Close()
	share, err := sess.Mount(t.Context(), "share")
	must(t, err)
	last.Close()
	for range 5 {
		if _, err := share.Stat("file"); !errors.Is(err, smb.ErrLogin) {
			t.Error(err)
		}
	}
	if i.starts != 2 {
		t.Errorf("%d authentications, want 2", i.starts)
	}
}

// TestLoginRefusedBehindLink opens files behind a DFS link to a server that refuses the user: one login is made there.
func TestLoginRefusedBehindLink(t *testing.T) {
	var logins atomic.Int32
	there := &script.Server{Hook: func(c *script.Conn, m *script.Message) bool {
		if m.Command == proto.CommandSessionSetup {
			logins.Add(1)
			c.Refuse(m, proto.StatusLogonFailure)
			return true
		}
		return false
	}}
	here := &script.Server{Hook: func(c *script.Conn, m *script.Message) bool {
		switch {
		case m.Command == proto.CommandCreate:
			c.Refuse(m, proto.StatusPathNotCovered)
			return true
		case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals:
			c.Reply(m, 0, ioctlAnswer(referralAnswer(`\here\share\link`, `\there\share`, time.Hour)), script.AsAsked)
			return true
		}
		return false
	}}
	d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}, DialFunc: func(ctx context.Context, n, addr string) (net.Conn, error) {
		if host, _, _ := net.SplitHostPort(addr); host == "there" {
			return through(t, there.Dial)(ctx, n, addr)
		}
		return through(t, here.Dial)(ctx, n, addr)
	}}
	sess, err := d.Dial(t.Context(), "here")
	must(t, err)
	defer sess.Close()
	share, err := sess.Mount(t.Context(), "share")
	must(t, err)
	for range 5 {
		if _, err := share.Stat("link/file"); !errors.Is(err, smb.ErrLogin) {
			t.Errorf("Stat: %v", err)
		}
	}
	if n := logins.Load(); n != 1 {
		t.Errorf("%d logins, want 1", n)
	}
}

// TestDialRefused dials with a wrong password: the error says that, and a later Dial tries again.
func TestDialRefused(t *testing.T) {
	eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
		d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: "wrong"}, Pool: newPool(t), DialFunc: dialer(t)}
		_, err := d.Dial(t.Context(), srv.Addr)
		if !errors.Is(err, smb.ErrLogin) || !errors.Is(err, smb.Status(proto.StatusLogonFailure)) || !errors.Is(err, fs.ErrPermission) {
			t.Error(err)
		}
		if want := "smb: login refused: smb: server answered SESSION_SETUP with STATUS_LOGON_FAILURE"; err.Error() != want {
			t.Errorf("%q, want %q", err, want)
		}
	})
}
