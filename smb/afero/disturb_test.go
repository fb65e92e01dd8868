package afero_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/tarntest"
)

// conversation uses share, whose context is ctx, below the new directory dir, and returns its first error. It fails
// the test where content differs from what was written.
type conversation func(ctx context.Context, t *testing.T, share *smb.Share, dir string) error

// disturb runs a conversation with Samba, plain, signed and encrypted, and ends the connection by FIN or by RST, or
// stalls it, after some number of bytes in either direction:
//
//   - after FIN and RST the conversation succeeds, or fails with smb.ErrConnLost or smb.ErrHandleLost; it
//     succeeds when it is repeated in another directory, on a new connection;
//   - a stall ends it with context.Canceled when its context is cancelled;
//   - every buffer is freed, and nothing waits for ever.
func disturb(t *testing.T, converse conversation) {
	const places = 6
	for _, mode := range rig.Modes() {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			var toServer, toClient int64 // bytes of a conversation that is not disturbed
			t.Run("undisturbed", func(t *testing.T) {
				s, share, link := mountThrough(t, srv, smb.Limits{})
				defer s.Close()
				toServer, toClient = link.ToServer.Passed(), link.ToClient.Passed()
				if err := converse(t.Context(), t, share, "undisturbed"); err != nil {
					t.Fatal(err)
				}
				toServer, toClient = link.ToServer.Passed()-toServer, link.ToClient.Passed()-toClient
			})
			for i := range int64(places) {
				for _, side := range []struct {
					name string
					flow func(*faultnet.Link) *faultnet.Flow
					at   int64
				}{
					{"server", func(l *faultnet.Link) *faultnet.Flow { return l.ToServer }, toServer * i / places},
					{"client", func(l *faultnet.Link) *faultnet.Flow { return l.ToClient }, toClient * i / places},
				} {
					name := strconv.FormatInt(side.at, 10) + "-bytes-to-" + side.name
					t.Run("FIN-after-"+name, func(t *testing.T) { breaks(t, srv, converse, side.flow, side.at, faultnet.FIN) })
					t.Run("RST-after-"+name, func(t *testing.T) { breaks(t, srv, converse, side.flow, side.at, faultnet.RST) })
					t.Run("stall-after-"+name, func(t *testing.T) { stalls(t, srv, converse, side.flow, side.at) })
				}
			}
		})
	}
}

// breaks ends the connection in the way how when n bytes of the conversation have passed in flow.
func breaks(t *testing.T, srv *rig.Server, converse conversation, flow func(*faultnet.Link) *faultnet.Flow, n int64, how faultnet.Ending) {
	s, share, link := mountThrough(t, srv, smb.Limits{})
	defer s.Close()
	f := flow(link)
	f.CutAfter(f.Passed()+n, how)
	err := converse(t.Context(), t, share, "cut-"+unique(t))
	if err != nil && !errors.Is(err, smb.ErrConnLost) && !errors.Is(err, smb.ErrHandleLost) {
		t.Errorf("cut: %v", err)
	}
	if err := converse(t.Context(), t, share, "again-"+unique(t)); err != nil {
		t.Errorf("repeated: %v", err)
	}
}

// stalls stops flow when n bytes of the conversation have passed in it, and then cancels the context.
func stalls(t *testing.T, srv *rig.Server, converse conversation, flow func(*faultnet.Link) *faultnet.Flow, n int64) {
	s, share, link := mountThrough(t, srv, smb.Limits{CloseTimeout: 50 * time.Millisecond})
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := flow(link)
	stalled := f.StallAfter(f.Passed() + n)
	go func() {
		select {
		case <-stalled:
		case <-t.Context().Done():
		}
		cancel()
	}()
	err := converse(ctx, t, share.WithContext(ctx), unique(t))
	// A Close that stalls ends by its own timeout if that is sooner than this test's goroutine.
	if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("stalled: %v", err)
	}
}

// mountThrough mounts srv's share through a relay on which faults can be made, and returns the relay of the first
// connection. Connections that replace it have no faults. The caller closes the session.
func mountThrough(t *testing.T, srv *rig.Server, limits smb.Limits) (*smb.Session, *smb.Share, *faultnet.Link) {
	t.Helper()
	pool := tarntest.NewPool(t) // checked after the relays have ended
	l := rigtest.Relay(t, srv.Addr)
	links := make(chan *faultnet.Link, 1)
	l.Faults(func(link *faultnet.Link) {
		select {
		case links <- link:
		default:
		}
	})
	d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: srv.Password}, AllowUnsigned: true, Pool: pool, DialFunc: l.Dial, Limits: limits}
	s, err := d.Dial(t.Context(), srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	share, err := s.Mount(t.Context(), srv.Share)
	if err != nil {
		s.Close()
		t.Fatal(err)
	}
	return s, share, <-links
}

// unique is the last part of a test's name.
func unique(t *testing.T) string {
	return t.Name()[strings.LastIndex(t.Name(), "/")+1:]
}
