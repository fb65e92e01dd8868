package smb_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// rootLifetime is that of the referrals of a rootServer.
const rootLifetime = 300 * time.Second

// rootServer has the share "root", which is a DFS root whose target is on another server, unless a test changes that. It is used in a
// bubble of package synctest.
type rootServer struct {
	session *smb.Session
	root    *smb.Share
	conns   map[string]net.Conn // the last to each server
	created []string            // the servers that received a CREATE

	target string   // the server with the root's target; "": the share is no root
	exists bool     // the share is on the first server itself
	lost   []string // servers that cannot be reached
	cuts   bool     // the first server closes the connection when it is asked for the referral
}

func newRootServer(t *testing.T, kind string) *rootServer {
	t.Helper()
	r := &rootServer{target: "one", conns: map[string]net.Conn{}}
	d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1, RedialTimeout: -1}}
	d.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, _, _ := strings.Cut(addr, ":")
		if slices.Contains(r.lost, host) {
			return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
		}
		s := protections()[kind]
		s.Capabilities = proto.CapDFS
		s.Hook = func(c *script.Conn, m *script.Message) bool { return r.answer(host, c, m) }
		nc, err := through(t, s.Dial)(ctx, network, addr)
		r.conns[host] = nc
		return nc, err
	}
	var err error
	r.session, err = d.Dial(t.Context(), "scripted")
	must(t, err)
	r.root, err = r.session.Mount(t.Context(), "root")
	must(t, err)
	return r
}

func (r *rootServer) answer(host string, c *script.Conn, m *script.Message) bool {
	switch {
	case m.Command == proto.CommandCreate:
		r.created = append(r.created, host)
	case m.Command == proto.CommandTreeConnect && strings.HasSuffix(proto.DecodeUTF16(m.Body[8:]), `\root`) && !r.exists:
		c.Refuse(m, proto.StatusBadNetworkName)
		return true
	case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals && r.cuts:
		c.Close()
		return true
	case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals && r.target == "":
		c.Refuse(m, proto.StatusNotFound)
		return true
	case m.Command == proto.CommandIoctl && le.Uint32(m.Body[4:]) == proto.FsctlDFSGetReferrals:
		c.Reply(m, 0, ioctlAnswer(referralAnswer(`\scripted\root`, `\`+r.target+`\share`, rootLifetime)), script.AsAsked)
		return true
	}
	return false
}

// lose loses the connection to a server, which cannot be reached afterwards.
func (r *rootServer) lose(host string) {
	r.lost = append(r.lost, host)
	r.conns[host].Close()
	synctest.Wait()
}

// used is the server on which Stat of a file of the root opens it.
func (r *rootServer) used(t *testing.T) string {
	t.Helper()
	_, err := r.root.Stat("file")
	must(t, err)
	return r.created[len(r.created)-1]
}

// TestRootLifetime changes what a DFS root is after it was mounted. When the lifetime of its referral has ended, or no target can be
// reached, the server of the root is asked again.
func TestRootLifetime(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for name, test := range map[string]func(t *testing.T, r *rootServer){
		"another target": func(t *testing.T, r *rootServer) {
			r.target = "two"
			<-time.After(rootLifetime - time.Second)
			if s := r.used(t); s != "one" {
				t.Errorf("used %s before the lifetime has ended", s)
			}
			<-time.After(2 * time.Second)
			if s := r.used(t); s != "two" {
				t.Errorf("used %s after the lifetime", s)
			}
		},
		"share of its name": func(t *testing.T, r *rootServer) {
			r.exists = true
			<-time.After(rootLifetime + time.Second)
			if s := r.used(t); s != "scripted" {
				t.Errorf("used %s", s)
			}
		},
		"removed": func(t *testing.T, r *rootServer) {
			r.target = ""
			<-time.After(rootLifetime + time.Second)
			for range 2 {
				if _, err := r.root.Stat("file"); !errors.Is(err, smb.ErrShareLost) || errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%v, want %v", err, smb.ErrShareLost)
				}
			}
			r.target = "two"
			if s := r.used(t); s != "two" {
				t.Errorf("used %s", s)
			}
		},
		"target lost": func(t *testing.T, r *rootServer) {
			r.target = "two"
			r.lose("one")
			if _, err := r.root.Stat("file"); !errors.Is(err, smb.ErrConnLost) {
				t.Errorf("%v, want %v", err, smb.ErrConnLost)
			}
			if s := r.used(t); s != "two" {
				t.Errorf("used %s", s)
			}
		},
		"its server lost while it is asked": func(t *testing.T, r *rootServer) {
			r.cuts = true
			<-time.After(rootLifetime + time.Second)
			if s := r.used(t); s != "one" {
				t.Errorf("used %s", s)
			}
		},
		"its server lost": func(t *testing.T, r *rootServer) {
			r.target = "two"
			r.lose("scripted")
			<-time.After(rootLifetime + time.Second)
			for range 3 {
				if s := r.used(t); s != "one" {
					t.Errorf("used %s", s)
				}
			}
			r.lost = nil
			<-time.After(2 * time.Minute)
			if s := r.used(t); s != "two" {
				t.Errorf("used %s after the server has come back", s)
			}
		},
	} {
		for _, kind := range kinds() {
			t.Run(name+"/"+kind, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRootServer(t, kind)
					defer r.session.Close()
					test(t, r)
				})
			})
		}
	}
}
