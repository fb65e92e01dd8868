package smb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// referralAnswer is the output of FSCTL_DFS_GET_REFERRALS for the link path, with one target (MS-DFSC 2.2.4).
func referralAnswer(path, target string, lifetime time.Duration) []byte {
	names := proto.AppendUTF16(nil, path+"\x00"+path+"\x00"+target+"\x00")
	const entry = 34 // length of one of version 4, before its names
	length := 2 * (len(path) + 1)
	b := le.AppendUint16(nil, uint16(2*len(path)))
	b = append(b, 1, 0, 2, 0, 0, 0)
	b = append(b, 4, 0, entry, 0, 0, 0, 4, 0)
	b = le.AppendUint32(b, uint32(lifetime/time.Second))
	for _, at := range []int{entry, entry + length, entry + 2*length} {
		b = le.AppendUint16(b, uint16(at))
	}
	return append(append(b, make([]byte, 16)...), names...)
}

// TestReferralLifetime opens a file behind a DFS link again and again: the server is asked for the referral once in its lifetime.
func TestReferralLifetime(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	synctest.Test(t, func(t *testing.T) {
		const lifetime = 300 * time.Second
		var asked atomic.Int32
		s := &script.Server{}
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			switch {
			case m.Command == proto.CommandCreate && script.NameOf(m) == `link\file`:
				c.Refuse(m, proto.StatusPathNotCovered)
				return true
			case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals:
				asked.Add(1)
				c.Reply(m, 0, ioctlAnswer(referralAnswer(`\scripted\share\link`, `\scripted\share\target`, lifetime)), script.AsAsked)
				return true
			}
			return false
		}
		d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), DialFunc: through(t, s.Dial), Limits: smb.Limits{KeepAlive: -1}}
		session, err := d.Dial(context.Background(), "scripted")
		must(t, err)
		defer session.Close()
		share, err := session.Mount(context.Background(), "share")
		must(t, err)
		open := func(want int32) {
			t.Helper()
			f, err := share.Open("link/file")
			must(t, err)
			must(t, f.Close())
			if got := asked.Load(); got != want {
				t.Errorf("%d requests for the referral, want %d", got, want)
			}
		}
		open(1)
		open(1)
		<-time.After(lifetime - time.Second)
		open(1)
		<-time.After(2 * time.Second)
		open(2)
		open(2)
	})
}

// TestReferralToDomain follows a DFS link whose target names a domain: it is dialled by that name, at the port of the server with the
// link.
func TestReferralToDomain(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			s := protections()[kind]
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				switch {
				case m.Command == proto.CommandCreate && script.NameOf(m) == `link\file`:
					c.Refuse(m, proto.StatusPathNotCovered)
					return true
				case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals:
					c.Reply(m, 0, ioctlAnswer(referralAnswer(`\scripted\share\link`, `\ad.example\space\target`, time.Minute)), script.AsAsked)
					return true
				}
				return false
			}
			var dialled []string
			d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1},
				AllowReferral: func(host string) bool { return host == "ad.example" },
				DialFunc: func(ctx context.Context, n, addr string) (net.Conn, error) {
					dialled = append(dialled, addr)
					return through(t, s.Dial)(ctx, n, addr)
				}}
			session, err := d.Dial(t.Context(), "scripted:4450")
			must(t, err)
			defer session.Close()
			share, err := session.Mount(t.Context(), "share")
			must(t, err)
			_, err = share.Stat("link/file")
			must(t, err)
			if want := []string{"scripted:4450", "ad.example:4450"}; !slices.Equal(dialled, want) {
				t.Errorf("dialled %v, want %v", dialled, want)
			}
		})
	}
}

// TestReferralsToManyServers has a server whose links each name another server: no more than 1,000 of these are dialled.
func TestReferralsToManyServers(t *testing.T) {
	const most = 1000
	l := newLinking(t, "plain")
	for i := range most + 5 {
		_, err := l.share.Stat(fmt.Sprintf("link%04d", i))
		if refused := err != nil && strings.Contains(err.Error(), "more than 1000 servers"); refused != (i >= most) {
			t.Fatal(i, err)
		}
	}
	if n := len(l.dialled) - 1; n != most {
		t.Errorf("%d servers dialled", n)
	}
}

// TestReferralsToMissingTargets has links name more servers that cannot be reached, and more shares that do not exist, than a session
// follows links to: they do not count, and the links behind them are followed.
func TestReferralsToMissingTargets(t *testing.T) {
	withoutDetector(t)
	for _, kind := range kinds() {
		for missing, most := range map[string]int{"server": 1000, "share": 4096} {
			t.Run(kind+"/"+missing, func(t *testing.T) {
				l := newLinking(t, kind)
				l.missing = missing
				for i := range most + 1 {
					if _, err := l.share.Stat(fmt.Sprintf("link%04d", i)); err == nil {
						t.Fatal("Stat returned nil")
					}
				}
				l.missing = ""
				_, err := l.share.Stat("link9999")
				must(t, err)
				_, err = l.share.Stat("link0000")
				must(t, err)
			})
		}
	}
}

// TestMissingTargetTriedTogether has many goroutines follow a link to a server that can be reached from the second attempt on: they share one
// session with it, which ends with the session that was dialled.
func TestMissingTargetTriedTogether(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			l := newLinking(t, kind)
			l.failures = 1
			var callers sync.WaitGroup
			for range 8 {
				callers.Go(func() { l.share.Stat("link0001") })
			}
			callers.Wait()
			_, err := l.share.Stat("link0001")
			must(t, err)
			must(t, l.share.Session().Close())
			for _, nc := range l.conns {
				if _, err := nc.Write(nil); err == nil {
					t.Error("a connection is open after Close")
				}
			}
		})
	}
}

// TestCloseOfLinkedSession closes a session that a DFS link led to, or logs it off: the link is followed again afterwards.
func TestCloseOfLinkedSession(t *testing.T) {
	for _, kind := range kinds() {
		for name, end := range map[string]func(*smb.Session) error{
			"Close":  (*smb.Session).Close,
			"Logoff": func(s *smb.Session) error { return s.Logoff(context.Background()) },
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				l := newLinking(t, kind)
				for range 2 {
					f, err := l.share.Open("link0001")
					must(t, err)
					must(t, end(f.Share().Session()))
					if _, err := f.ReadAt(make([]byte, 1), 0); !errors.Is(err, smb.ErrClosed) {
						t.Errorf("%v, want %v", err, smb.ErrClosed)
					}
				}
				if n := l.dialled["host0001:445"]; n != 2 {
					t.Errorf("the server was dialled %d times", n)
				}
			})
		}
	}
}

// linking is a share with links: linkNNNN leads to the share shareNNNN of the server hostNNNN or, with missing share, of the server
// hosted. Every server is the same scripted one.
type linking struct {
	share   *smb.Share
	missing string // "server": others than the first cannot be reached; "share": others than that with the links do not exist

	mu       sync.Mutex
	failures int // of the next attempts to dial another server
	dialled  map[string]int
	conns    []net.Conn
}

func newLinking(t *testing.T, kind string) *linking {
	t.Helper()
	l := &linking{dialled: map[string]int{}}
	s := protections()[kind]
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		switch {
		case m.Command == proto.CommandTreeConnect && l.missing == "share" && !strings.HasSuffix(proto.DecodeUTF16(m.Body[8:]), `\share`):
			c.Refuse(m, proto.StatusBadNetworkName)
			return true
		case m.Command == proto.CommandCreate && strings.HasPrefix(script.NameOf(m), "link"):
			c.Refuse(m, proto.StatusPathNotCovered)
			return true
		case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals:
			path := askedReferral(m)
			number := path[len(path)-4:]
			host := "host" + number
			if l.missing == "share" {
				host = "hosted"
			}
			c.Reply(m, 0, ioctlAnswer(referralAnswer(path, `\`+host+`\share`+number+`\target`, time.Minute)), script.AsAsked)
			return true
		}
		return false
	}
	d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}}
	d.DialFunc = func(ctx context.Context, n, addr string) (net.Conn, error) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.dialled[addr]++
		if strings.HasPrefix(addr, "host") && (l.missing == "server" || l.failures > 0) {
			l.failures--
			return nil, &net.DNSError{Err: "no such host", Name: addr, IsNotFound: true}
		}
		nc, err := through(t, s.Dial)(ctx, n, addr)
		l.conns = append(l.conns, nc)
		return nc, err
	}
	session, err := d.Dial(t.Context(), "scripted")
	must(t, err)
	t.Cleanup(func() { session.Close() })
	l.share, err = session.Mount(t.Context(), "share")
	must(t, err)
	return l
}

// TestReferralsToManyShares has a server whose links each name another share of another server, or of its own: no more than 4,096 of
// these are connected.
func TestReferralsToManyShares(t *testing.T) {
	withoutDetector(t)
	for _, host := range []string{"scripted", "other"} {
		t.Run(host, func(t *testing.T) {
			const most = 4096
			links := 0
			var connected atomic.Int32
			s := &script.Server{}
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				switch {
				case m.Command == proto.CommandCreate && strings.HasPrefix(script.NameOf(m), "link"):
					c.Refuse(m, proto.StatusPathNotCovered)
					return true
				case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals:
					links++
					path, target := fmt.Sprintf(`\scripted\share\link%04d`, links), fmt.Sprintf(`\%s\share%04d\target`, host, links)
					c.Reply(m, 0, ioctlAnswer(referralAnswer(path, target, time.Minute)), script.AsAsked)
					return true
				case m.Command == proto.CommandTreeConnect:
					connected.Add(1)
				}
				return false
			}
			d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), DialFunc: through(t, s.Dial), Limits: smb.Limits{KeepAlive: -1}}
			session, err := d.Dial(t.Context(), "scripted")
			must(t, err)
			defer session.Close()
			share, err := session.Mount(t.Context(), "share")
			must(t, err)
			for i := range most + 5 {
				if _, err = share.Stat(fmt.Sprintf("link%04d", i+1)); err != nil && i < most {
					t.Fatal(i, err)
				}
			}
			if n := connected.Load(); n != most+1 || err == nil || !strings.Contains(err.Error(), "more than 4096 shares") {
				t.Errorf("%d shares connected for %d links; the last: %v", n, links, err)
			}
		})
	}
}

// TestLinksOnOtherServers has links on two servers that name other servers: all of them count for the session that was dialled. Links
// back to its server use that session.
func TestLinksOnOtherServers(t *testing.T) {
	const most = 1000
	s := &script.Server{}
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		switch {
		case m.Command == proto.CommandCreate && strings.HasPrefix(script.NameOf(m), "link"):
			c.Refuse(m, proto.StatusPathNotCovered)
			return true
		case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals:
			path := askedReferral(m)
			number := path[len(path)-4:]
			target := `\host` + number + `\share\target`
			switch {
			case number == "0000":
				target = `\scripted\share\target`
			case number[3]%2 == 0 && strings.HasPrefix(path, `\scripted\`): // half of the links are on this server
				target = `\second\share\link` + number
			}
			c.Reply(m, 0, ioctlAnswer(referralAnswer(path, target, time.Minute)), script.AsAsked)
			return true
		}
		return false
	}
	dialled := map[string]int{}
	d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1},
		DialFunc: func(ctx context.Context, n, addr string) (net.Conn, error) {
			dialled[addr]++
			return through(t, s.Dial)(ctx, n, addr)
		}}
	session, err := d.Dial(t.Context(), "scripted")
	must(t, err)
	defer session.Close()
	share, err := session.Mount(t.Context(), "share")
	must(t, err)
	failed := 0
	for i := range most + 50 {
		if _, err := share.Stat(fmt.Sprintf("link%04d", i)); err != nil {
			failed++
			if !strings.Contains(err.Error(), "more than 1000 servers") {
				t.Fatal(i, err)
			}
		}
	}
	if len(dialled) != 1+most || failed != 50 {
		t.Errorf("%d servers dialled, %d links not followed", len(dialled), failed)
	}
	for addr, n := range dialled {
		if n != 1 {
			t.Errorf("%s was dialled %d times", addr, n)
		}
	}
}

// TestUnmountOfLinkedShare unmounts the share of a file that was opened through a DFS link: the link is followed again afterwards.
func TestUnmountOfLinkedShare(t *testing.T) {
	for _, host := range []string{"scripted", "other"} {
		t.Run(host, func(t *testing.T) {
			s := &script.Server{}
			s.Hook = func(c *script.Conn, m *script.Message) bool {
				switch {
				case m.Command == proto.CommandCreate && strings.HasPrefix(script.NameOf(m), "link"):
					c.Refuse(m, proto.StatusPathNotCovered)
					return true
				case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals:
					target := `\` + host + `\linked\file`
					c.Reply(m, 0, ioctlAnswer(referralAnswer(`\scripted\share\link`, target, time.Minute)), script.AsAsked)
					return true
				}
				return false
			}
			d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), DialFunc: through(t, s.Dial), Limits: smb.Limits{KeepAlive: -1}}
			session, err := d.Dial(t.Context(), "scripted")
			must(t, err)
			defer session.Close()
			share, err := session.Mount(t.Context(), "share")
			must(t, err)
			for range 2 {
				f, err := share.Open("link")
				must(t, err)
				if name := f.Share().Name(); name != "linked" {
					t.Errorf("opened on %q", name)
				}
				must(t, f.Close())
				must(t, f.Share().Unmount())
			}
		})
	}
}

// askedReferral is the path that m, an FSCTL_DFS_GET_REFERRALS, asks for.
func askedReferral(m *script.Message) string {
	at, n := int(le.Uint32(m.Body[24:]))-proto.HeaderSize, int(le.Uint32(m.Body[28:]))
	return strings.TrimRight(proto.DecodeUTF16(m.Body[at+2:at+n]), "\x00")
}

// TestRootsWithoutEnd has a server whose shares are all DFS roots that lead to other shares, without end or in a circle.
func TestRootsWithoutEnd(t *testing.T) {
	for _, kind := range kinds() {
		for name, next := range map[string]func(n int) int{
			"without end": func(n int) int { return n + 1 },
			"in a circle": func(n int) int { return (n + 1) % 3 },
		} {
			t.Run(kind+"/"+name, func(t *testing.T) {
				var roots atomic.Bool
				s := protections()[kind]
				s.Capabilities = proto.CapDFS
				s.Hook = func(c *script.Conn, m *script.Message) bool {
					switch {
					case m.Command == proto.CommandTreeConnect && roots.Load() && !strings.HasSuffix(proto.DecodeUTF16(m.Body[8:]), "IPC$"):
						c.Refuse(m, proto.StatusBadNetworkName)
						return true
					case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals:
						path := askedReferral(m)
						var n int
						fmt.Sscanf(path, `\scripted\root%d`, &n)
						target := fmt.Sprintf(`\scripted\root%d`, next(n))
						c.Reply(m, 0, ioctlAnswer(referralAnswer(path, target, time.Minute)), script.AsAsked)
						return true
					}
					return false
				}
				d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), DialFunc: through(t, s.Dial), Limits: smb.Limits{KeepAlive: -1}}
				session, err := d.Dial(t.Context(), "scripted")
				must(t, err)
				defer session.Close()
				roots.Store(true)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				for range 2 {
					if _, err = session.Mount(ctx, "root0"); err == nil || !strings.Contains(err.Error(), "too many levels of links") {
						t.Error(err)
					}
				}
			})
		}
	}
}

// ioctlAnswer is the body of a reply to an IOCTL.
func ioctlAnswer(output []byte) []byte {
	b := make([]byte, 48)
	b[0] = 49
	le.PutUint32(b[32:], proto.HeaderSize+48)
	le.PutUint32(b[36:], uint32(len(output)))
	return append(b, output...)
}
