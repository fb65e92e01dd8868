// Package logintest tests that a client accepts a login only from a server that has proved that it knows the user's password: a
// scripted server deviates from a correct login in one answer.
package logintest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
	"github.com/tarn-go/tarn/tarntest"
)

// Login is a mechanism of which both sides are there.
type Login struct {
	Initiator    smb.Initiator
	NewMechanism func() script.Mechanism
	Steps        int // SESSION_SETUPs of a correct login
}

// knows is what the server does with its last answer.
type knows string

const (
	theKey   knows = "knows the key"
	noKey    knows = "does not sign"
	otherKey knows = "signs with another key"
)

// tokens are the kinds of token in the answer that deviates.
type tokens string

const (
	asItIs   tokens = "as it is"
	missing  tokens = "none"
	flipped  tokens = "with a flipped bit"
	empty    tokens = "nothing, SPNEGO's neither"
	garbage  tokens = "not SPNEGO's"
	wrongMIC tokens = "with a wrong MIC"
)

// cell is one deviation.
type cell struct {
	server  knows
	step    int
	success bool // the status
	state   int
	token   tokens
	flags   proto.SessionFlags
}

func (c *cell) String() string {
	return fmt.Sprintf("server %s: answer %d: success %t, state %d, token %s, flags %#x", c.server, c.step, c.success, c.state, c.token, c.flags)
}

// correct reports whether a login with the answer of c is correct, so that the client has to accept it.
func (l *Login) correct(c *cell) bool {
	last := c.step == l.Steps-1
	bare := l.Steps == 2 && last // the correct answer has no token of the mechanism, and follows the client's last one
	if c.server != theKey || c.success != last && l.Steps == 2 || c.success && c.flags != 0 {
		return false
	}
	switch c.token {
	case empty:
		return bare
	case missing:
		if !bare {
			return false
		}
	case asItIs:
	default:
		return false
	}
	if c.success {
		return c.state == script.AcceptCompleted
	}
	return c.state == script.NoState || c.state == script.AcceptIncomplete
}

// change makes the answer to the SESSION_SETUP number step the one of c.
func (c *cell) change(step int, a *script.Answer) {
	switch c.server {
	case noKey:
		a.Security = script.InClear
	case otherKey:
		if a.Key != nil {
			a.Key = bytes.Repeat([]byte{1}, 16)
		}
	}
	if a.Key == nil && a.Status == proto.StatusSuccess {
		a.Key = bytes.Repeat([]byte{1}, 16)
	}
	if step != c.step {
		return
	}
	a.Status, a.State, a.Flags = proto.StatusMoreProcessingRequired, c.state, c.flags
	if c.success {
		a.Status = proto.StatusSuccess
		if a.Key == nil {
			a.Key = bytes.Repeat([]byte{1}, 16)
		}
	}
	switch c.token {
	case missing:
		a.Token = nil
	case flipped:
		if a.Token = bytes.Clone(a.Token); len(a.Token) > 0 {
			a.Token[0] ^= 1
		} else {
			a.Token = []byte{1}
		}
	case empty:
		a.Blob = []byte{}
	case garbage:
		a.Blob = []byte("garbage")
	case wrongMIC:
		a.MIC = bytes.Repeat([]byte{1}, 16)
	}
}

// Run tests every deviation when a session is dialled, when it is dialled again after its connection was lost, and when it is
// authenticated again after it has expired.
func Run(t *testing.T, l Login) {
	ways := map[string]func(*testing.T, *peer, smb.Dialer) error{"dial": dial, "reconnect": reconnect, "re-authentication": reauthenticate}
	for way, use := range ways {
		for _, dialect := range []proto.Dialect{proto.Dialect210, proto.Dialect300, proto.Dialect311} {
			for _, unsigned := range []bool{false, true} {
				if way != "dial" && dialect == proto.Dialect300 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%v/unsigned=%t", way, dialect, unsigned), func(t *testing.T) {
					t.Parallel()
					pool := tarntest.NewPool(t)
					for _, c := range l.cells() {
						if way == "re-authentication" && c.server == otherKey {
							continue // the session keeps its keys
						}
						p := &peer{login: l, cell: c, dialect: dialect}
						err := use(t, p, smb.Dialer{Initiator: l.Initiator, Pool: pool, AllowUnsigned: unsigned})
						p.check(t, err)
					}
				})
			}
		}
	}
}

func (l *Login) cells() (list []*cell) {
	for _, server := range []knows{theKey, noKey, otherKey} {
		for step := range l.Steps {
			for _, success := range []bool{false, true} {
				for _, state := range []int{script.NoState, script.AcceptCompleted, script.AcceptIncomplete, script.Rejected, script.RequestMIC} {
					for _, token := range []tokens{asItIs, missing, flipped, wrongMIC} {
						list = append(list, &cell{server, step, success, state, token, 0})
					}
				}
				list = append(list, &cell{server, step, success, 0, empty, 0}, &cell{server, step, success, 0, garbage, 0})
			}
			for _, flags := range []proto.SessionFlags{proto.SessionGuest, proto.SessionNull, proto.SessionGuest | proto.SessionNull} {
				for _, token := range []tokens{asItIs, empty} {
					list = append(list, &cell{server, step, true, script.AcceptCompleted, token, flags})
				}
			}
		}
	}
	return list
}

// peer is the server of one cell.
type peer struct {
	login   Login
	cell    *cell
	dialect proto.Dialect

	deviates atomic.Bool
	expired  atomic.Bool
	requests atomic.Int32 // behind a login that deviated
	dials    int
	last     net.Conn
}

func (p *peer) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s := &script.Server{
		Dialect: p.dialect, MaxIO: 65536, NewMechanism: p.login.NewMechanism,
		Answer: func(_ *script.Conn, step int, a *script.Answer) {
			if p.deviates.Load() {
				p.cell.change(step, a)
			}
		},
		Hook: func(c *script.Conn, m *script.Message) bool {
			switch {
			case m.Command == proto.CommandSessionSetup:
				if p.expired.CompareAndSwap(true, false) {
					p.deviates.Store(true)
				}
			case m.Command == proto.CommandNegotiate:
			case p.expired.Load():
				c.Refuse(m, proto.StatusNetworkSessionExpired)
				return true
			case p.deviates.Load():
				p.requests.Add(1)
			}
			return false
		},
	}
	p.dials++
	nc, err := s.Dial(ctx, network, addr)
	p.last = nc
	return nc, err
}

func (p *peer) check(t *testing.T, err error) {
	t.Helper()
	correct := p.login.correct(p.cell)
	switch n := p.requests.Load(); {
	case correct && (err != nil || n == 0):
		t.Errorf("%v: %v, %d requests, want success", p.cell, err, n)
	case !correct && (!errors.Is(err, smb.ErrSecurity) || errors.Is(err, smb.ErrConnLost)):
		t.Errorf("%v: %v, want ErrSecurity", p.cell, err)
	case !correct && n > 0:
		t.Errorf("%v: the server was sent %d requests", p.cell, n)
	}
}

// use writes a file.
func use(t *testing.T, sess *smb.Session) error {
	share, err := sess.Mount(t.Context(), "share")
	if err != nil {
		return err
	}
	return share.WriteFile("file", []byte("confidential"), 0o666)
}

func dial(t *testing.T, p *peer, d smb.Dialer) error {
	p.deviates.Store(true)
	d.DialFunc = p.Dial
	sess, err := d.Dial(t.Context(), "scripted")
	if err != nil {
		return err
	}
	defer sess.Close()
	return use(t, sess)
}

// begin dials p before it deviates.
func begin(t *testing.T, p *peer, d smb.Dialer) (*smb.Session, *smb.Share) {
	t.Helper()
	d.DialFunc = p.Dial
	sess, err := d.Dial(t.Context(), "scripted")
	if err != nil {
		t.Fatal(err)
	}
	share, err := sess.Mount(t.Context(), "share")
	if err != nil {
		t.Fatal(err)
	}
	return sess, share
}

func reconnect(t *testing.T, p *peer, d smb.Dialer) error {
	sess, share := begin(t, p, d)
	defer sess.Close()
	p.deviates.Store(true)
	p.last.Close()
	return share.WriteFile("file", []byte("confidential"), 0o666)
}

func reauthenticate(t *testing.T, p *peer, d smb.Dialer) error {
	sess, share := begin(t, p, d)
	defer sess.Close()
	p.expired.Store(true)
	err := share.WriteFile("file", []byte("confidential"), 0o666)
	if err != nil {
		if again := share.WriteFile("file", []byte("confidential"), 0o666); again == nil {
			t.Errorf("%v: the session was used further", p.cell)
		}
	}
	if p.dials != 1 {
		t.Errorf("%v: %d connections", p.cell, p.dials)
	}
	return err
}
