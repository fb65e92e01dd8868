package smb_test

import (
	"bytes"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// notify is a CHANGE_NOTIFY that a scripted server has received.
type notify struct {
	c        *script.Conn
	m        script.Message
	answered *atomic.Bool
}

// report answers it with one added file.
func (n notify) report(name string) error {
	n.answered.Store(true)
	b := proto.AppendUTF16(nil, name)
	event := le.AppendUint32(le.AppendUint32(make([]byte, 4), uint32(smb.Added)), uint32(len(b)))
	return n.c.Reply(&n.m, 0, output(9, append(event, b...)), script.AsAsked)
}

// watched is a Watcher of a scripted server's directory.
type watched struct {
	t     *testing.T
	share *smb.Share
	w     *smb.Watcher
	asked chan notify
	opens chan *script.Conn // those on which the directory was opened
}

func newWatched(t *testing.T, kind string) *watched {
	e := &watched{t: t, asked: make(chan notify, 10), opens: make(chan *script.Conn, 10)}
	s := protections()[kind]
	var mu sync.Mutex
	var waiting []notify // on the newest connection
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		mu.Lock()
		defer mu.Unlock()
		switch m.Command {
		case proto.CommandSessionSetup:
			waiting = nil
		case proto.CommandCreate:
			if script.NameOf(m) == "" {
				e.opens <- c
				c.Opened(m, nil, func(b []byte) { le.PutUint32(b[56:], uint32(proto.AttrDirectory)) })
				return true
			}
		case proto.CommandChangeNotify:
			n := notify{c, *m, new(atomic.Bool)}
			n.m.Body = bytes.Clone(m.Body)
			waiting = append(waiting, n)
			e.asked <- n
			return true
		case proto.CommandClose:
			for _, n := range waiting {
				if !n.answered.Load() {
					c.Refuse(&n.m, proto.StatusNotifyCleanup)
				}
			}
			waiting = nil
		}
		return false
	}
	f, err := scripted(t, s, smb.Dialer{})
	must(t, err)
	e.share = f.Share()
	e.w, err = e.share.Watch(".", smb.WatchAll)
	must(t, err)
	return e
}

// next is the result of a Next that the server answers with an added file of that name.
func (e *watched) next(name string) {
	e.t.Helper()
	go func() {
		if err := (<-e.asked).report(name); err != nil {
			e.t.Error(err)
		}
	}()
	e.expect(name)
}

// expect calls Next, which returns one added file of that name.
func (e *watched) expect(name string) {
	e.t.Helper()
	events, err := e.w.Next(e.t.Context())
	if err != nil || len(events) != 1 || events[0] != (smb.Event{Kind: smb.Added, Name: name}) {
		e.t.Fatalf("Next: %v, %v; want %s", events, err, name)
	}
}

// missed calls Next, which fails with ErrMissed, and returns the request for the changes after that.
func (e *watched) missed() notify {
	e.t.Helper()
	if events, err := e.w.Next(e.t.Context()); !errors.Is(err, smb.ErrMissed) {
		e.t.Fatalf("Next after a loss: %v, %v", events, err)
	}
	return <-e.asked
}

// lose ends the connection c, and returns when the client has another.
func (e *watched) lose(c *script.Conn) {
	e.t.Helper()
	c.Close()
	if _, err := e.share.Stat("file"); err != nil {
		e.t.Fatal(err)
	}
}

// TestWatchAfterLoss loses the connection between two calls of Next, and while one waits. What has changed until the directory is
// open again was not reported: Next says so, after it has asked for the changes from then on.
func TestWatchAfterLoss(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			e := newWatched(t, kind)
			e.next("one")
			e.lose(<-e.opens)
			n := e.missed()
			must(t, n.report("two")) // before Next is called again
			e.expect("two")
			e.next("three")

			e.lose(n.c)
			n = e.missed()
			e.lose(n.c) // with a request under way
			n = e.missed()
			must(t, n.report("four"))
			e.expect("four")

			go func() { (<-e.asked).c.Close() }()
			if _, err := e.w.Next(t.Context()); !errors.Is(err, smb.ErrConnLost) {
				t.Errorf("Next that waits while the connection is lost: %v", err)
			}
			n = e.missed()
			must(t, e.w.Close()) // with a request under way
			if _, err := e.w.Next(t.Context()); !errors.Is(err, smb.ErrClosed) {
				t.Errorf("Next after Close: %v", err)
			}
		})
	}
}

// TestWatchBeforeFirstNext reports what has changed between Watch and the first Next: programs read the directory there. After a loss
// in that time the first Next says that changes were missed.
func TestWatchBeforeFirstNext(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			e := newWatched(t, kind)
			must(t, (<-e.asked).report("one"))
			e.expect("one")
			e.next("two")
			must(t, e.w.Close())

			e = newWatched(t, kind)
			<-e.asked
			e.lose(<-e.opens)
			n := e.missed()
			must(t, n.report("three"))
			e.expect("three")
			must(t, e.w.Close())
		})
	}
}
