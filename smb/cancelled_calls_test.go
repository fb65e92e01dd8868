package smb_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// moment is when the context of a call ends.
type moment uint8

const (
	beforeProcessed moment = iota // the server has received a request, and does not process it before
	afterProcessed                // the server has processed a request, and has not answered before
	whileWritten                  // the next request is being written
	whileQueued                   // the next request waits for another one to be written
)

func (m moment) String() string {
	return [...]string{"before a request is processed", "after a request was processed", "while a request is written", "while a request waits for the socket"}[m]
}

// cancelledKinds are the sessions of these tests. With one credit a call sends its requests one by one.
func cancelledKinds() []string { return []string{"plain", "encrypted/GCM", "plain/one credit"} }

// TestCancelledCalls ends the context of each call of Share and File at each moment of each of its requests. The server then holds
// open, or locked, what it held before, and no temporary file stays. Each call meets each moment in one of the sessions; with
// TARN_LONG=1 in all of them.
func TestCancelledCalls(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for turn, kind := range cancelledKinds() {
		for when := beforeProcessed; when <= whileQueued; when++ {
			t.Run(fmt.Sprint(kind, "/", when), func(t *testing.T) {
				for i, call := range eachCalls() {
					if os.Getenv("TARN_LONG") == "" && (i+int(when))%len(cancelledKinds()) != turn {
						continue
					}
					for at, more := 0, true; more; at++ {
						synctest.Test(t, func(t *testing.T) {
							c := newCancelledCall(t, kind)
							c.run(call, when, at)
							more = c.reached
						})
					}
				}
			})
		}
	}
}

// TestCancelledRemoval ends the context of ReplaceFile, which the server does not let rename its new file, at each moment: no temporary
// file stays, also if the context ends while that is removed.
func TestCancelledRemoval(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range cancelledKinds() {
		for when := beforeProcessed; when <= whileQueued; when++ {
			t.Run(fmt.Sprint(kind, "/", when), func(t *testing.T) {
				for _, call := range eachCalls() {
					if !strings.HasPrefix(call.name, "ReplaceFile") {
						continue
					}
					for at, more := 0, true; more; at++ {
						synctest.Test(t, func(t *testing.T) {
							c := newCancelledCall(t, kind)
							c.refuseRename = true
							c.run(call, when, at)
							more = c.reached
						})
					}
				}
			})
		}
	}
}

// cancelledCall is a call whose context ends, in a bubble of package synctest.
type cancelledCall struct {
	faultyShare
	gate gate
	hook func(requests int, processed bool) // if not nil, before and after each request

	refuseRename bool

	mu       sync.Mutex
	requests int
	trees    int // that the server has connected
	locks    int
	reached  bool // the moment came
}

func newCancelledCall(t *testing.T, kind string) *cancelledCall {
	c := &cancelledCall{faultyShare: faultyShare{
		t: t, disk: new(memoryDisk), want: bytes.Repeat([]byte("0123456789abcdefghijk"), 3200), kind: faultnet.Memory,
	}}
	c.begin()
	s := protections()[kind]
	s.Hook = c.serve
	d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}}
	d.DialFunc = through(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
		nc, err := s.Dial(ctx, network, addr)
		return &gatedConn{nc, &c.gate}, err
	})
	session, err := d.Dial(t.Context(), "scripted")
	must(t, err)
	t.Cleanup(func() { session.Close() })
	c.share, err = session.Mount(t.Context(), "share")
	must(t, err)
	return c
}

// serve is the hook of the scripted server.
func (c *cancelledCall) serve(conn *script.Conn, m *script.Message) bool {
	c.mu.Lock()
	c.requests++
	n, hook := c.requests, c.hook
	switch m.Command {
	case proto.CommandTreeConnect:
		c.trees++
	case proto.CommandTreeDisconnect:
		c.trees--
	case proto.CommandLock:
		if proto.LockFlags(le.Uint32(m.Body[40:]))&proto.LockUnlock != 0 {
			c.locks--
		} else {
			c.locks++
		}
	}
	c.mu.Unlock()
	if hook == nil || m.Command == proto.CommandCancel {
		return c.answer(conn, m)
	}
	hook(n, false)
	answered := c.answer(conn, m)
	hook(n, true)
	return answered
}

func (c *cancelledCall) answer(conn *script.Conn, m *script.Message) bool {
	if c.refuseRename && m.Command == proto.CommandSetInfo && proto.InfoClass(m.Body[3]) == proto.ClassRename {
		conn.Refuse(m, proto.StatusAccessDenied)
		return true
	}
	return c.disk.hook(conn, m)
}

// held is what the server holds for the client.
func (c *cancelledCall) held() (open, trees, locks int) {
	c.disk.mu.Lock()
	defer c.disk.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.disk.handles), c.trees, c.locks
}

// run makes the call, and ends its context at that moment of its request at, from 1 on. 0 is before the first.
func (c *cancelledCall) run(call eachCall, when moment, at int) {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	c.ctx = ctx
	use := call.make(&c.faultyShare)
	synctest.Wait()
	open, trees, locks := c.held()
	resume := make(chan struct{})
	var others sync.WaitGroup
	arrive := func() {
		c.reached = true
		switch when {
		case beforeProcessed, afterProcessed:
			cancel()
			<-resume
		case whileQueued:
			blocked := c.gate.shut(resume)
			others.Go(func() { c.share.Stat("busy") })
			select {
			case <-blocked:
			case <-resume: // Stat waits for credits
			}
		case whileWritten:
			c.gate.shut(resume)
		}
	}
	first := c.requests
	c.hook = func(requests int, processed bool) {
		if requests == first+at && processed == (when != beforeProcessed) && !c.reached {
			arrive()
		}
	}
	if at == 0 {
		others.Go(arrive)
		synctest.Wait()
	}
	var err error
	others.Go(func() { err = use() })
	synctest.Wait() // the client has done what it can
	cancel()
	synctest.Wait()
	close(resume)
	others.Wait()
	synctest.Wait()
	if err == nil {
		return // it had what it needed before the context ended, and may have opened a file
	}
	where := fmt.Sprintf("%s, %v %d: %v", call.name, when, at, err)
	if call.name == "File.Close" {
		open--
	}
	if o, tr, l := c.held(); o != open || tr != trees || l != locks && call.name != "File.Unlock" {
		c.t.Errorf("%s: the server holds %d files, %d trees, %d locks; before %d, %d, %d", where, o, tr, l, open, trees, locks)
	}
	c.disk.mu.Lock()
	defer c.disk.mu.Unlock()
	for name := range c.disk.nodes {
		if strings.HasPrefix(name, "tarn-part-") {
			c.t.Errorf("%s: left behind: %s", where, name)
		}
	}
	if n := c.disk.nodes["new"]; strings.HasPrefix(call.name, "Symlink") && n != nil {
		c.t.Errorf("%s: a file was left that is no link", where)
	}
}

// gate holds back what is written to a connection.
type gate struct {
	mu      sync.Mutex
	opens   <-chan struct{} // nil: it is open
	blocked chan struct{}
}

// shut holds back what is written until opens is closed. The channel that it returns is closed when something is held back.
func (g *gate) shut(opens <-chan struct{}) (blocked <-chan struct{}) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.opens, g.blocked = opens, make(chan struct{})
	return g.blocked
}

func (g *gate) pass() {
	g.mu.Lock()
	opens, blocked := g.opens, g.blocked
	g.opens = nil
	g.mu.Unlock()
	if opens != nil {
		close(blocked)
		<-opens
	}
}

// gatedConn is a connection with a gate for what is written to it.
type gatedConn struct {
	net.Conn
	gate *gate
}

func (c *gatedConn) Write(p []byte) (int, error) {
	c.gate.pass()
	return c.Conn.Write(p)
}
