package smb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// replacing is a share with a file whose ReplaceFile is disturbed. It is used in a bubble of package synctest.
type replacing struct {
	disk     memoryDisk
	share    *smb.Share
	old      []byte
	mu       sync.Mutex
	lost     *script.Conn
	received int                                                 // requests
	disturb  func(c *script.Conn, m *script.Message) (done bool) // before a request is processed
	after    func(c *script.Conn)                                // after a request was answered
}

func newReplacing(t *testing.T, kind string) *replacing {
	t.Helper()
	r := &replacing{old: random(3000)}
	r.disk.reset(map[string][]byte{`dir\name`: r.old, "busy": make([]byte, 10)})
	s := protections()[kind]
	s.Hook = func(c *script.Conn, m *script.Message) bool {
		r.mu.Lock()
		gone := c == r.lost
		if !gone {
			r.received++
		}
		r.mu.Unlock()
		if gone {
			return true // the rest of a frame
		}
		if r.disturb != nil && r.disturb(c, m) {
			return true
		}
		answered := r.disk.hook(c, m)
		if r.after != nil {
			r.after(c)
		}
		return answered
	}
	d := smb.Dialer{Initiator: fixedKey{}, DialFunc: through(t, s.Dial), Pool: newPool(t), Limits: smb.Limits{KeepAlive: -1}}
	session, err := d.Dial(t.Context(), "scripted")
	must(t, err)
	t.Cleanup(func() { session.Close() })
	r.share, err = session.Mount(t.Context(), "share")
	must(t, err)
	return r
}

func (r *replacing) lose(c *script.Conn) {
	r.mu.Lock()
	r.lost = c
	r.mu.Unlock()
	c.Close()
}

// check reports temporary files, and content of the file that is neither the old nor the new, or after success not the new.
func (r *replacing) check(t *testing.T, where string, data []byte, err error) {
	t.Helper()
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	for name := range r.disk.nodes {
		if strings.Contains(name, "tarn-part-") {
			t.Errorf("%s: %v, left behind: %s", where, err, name)
		}
	}
	got := r.disk.nodes[`dir\name`].data
	if !bytes.Equal(got, data) && (err == nil || !bytes.Equal(got, r.old)) {
		t.Errorf("%s: %v, and the file has %d bytes", where, err, len(got))
	}
}

// TestReplaceFileDisturbed loses the connection, or ends the context, at each request of ReplaceFile.
func TestReplaceFileDisturbed(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range append(kinds(), "plain/one credit") {
		for _, size := range []int{500, 100_000} {
			for _, how := range []string{"lost before", "lost after", "cancelled before", "cancelled after"} {
				t.Run(fmt.Sprint(kind, "/", size, "/", how), func(t *testing.T) {
					for at := 1; ; at++ {
						more := true
						synctest.Test(t, func(t *testing.T) { more = testReplaceFileDisturbed(t, kind, size, how, at) })
						if !more {
							break
						}
					}
				})
			}
		}
	}
}

// testReplaceFileDisturbed disturbs the request at, from 1 on, and reports whether ReplaceFile had as many.
func testReplaceFileDisturbed(t *testing.T, kind string, size int, how string, at int) (more bool) {
	r := newReplacing(t, kind)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var command proto.Command
	first, resume := r.received, make(chan struct{})
	r.disturb = func(c *script.Conn, m *script.Message) bool {
		if r.received != first+at {
			return false
		}
		command, more = m.Command, true
		switch how {
		case "lost before":
			r.lose(c)
			return true
		case "cancelled before":
			cancel()
			<-resume
		}
		return false
	}
	r.after = func(c *script.Conn) {
		if r.received != first+at {
			return
		}
		switch how {
		case "lost after":
			r.lose(c)
		case "cancelled after":
			cancel()
			<-resume
		}
	}
	data := random(size)
	done := make(chan error, 1)
	go func() { done <- r.share.WithContext(ctx).ReplaceFile("dir/name", data, 0o666, time.Unix(1e9, 0)) }()
	synctest.Wait() // the client has done what it can
	close(resume)
	err := <-done
	synctest.Wait()
	r.check(t, fmt.Sprint("request ", at, ", ", command), data, err)
	return more
}

// TestReplaceFileCancelledUnsent ends the context of ReplaceFile while its first request waits for the socket.
func TestReplaceFileCancelledUnsent(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range kinds() {
		for _, size := range []int{500, 100_000} {
			for _, others := range []int{0, 1} {
				t.Run(fmt.Sprint(kind, "/", size, "/", others), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testReplaceFileCancelledUnsent(t, kind, size, others) })
				})
			}
		}
	}
}

// testReplaceFileCancelledUnsent has other requests, which wait for the socket, before that of ReplaceFile.
func testReplaceFileCancelledUnsent(t *testing.T, kind string, size, others int) {
	r := newReplacing(t, kind)
	busy, err := r.share.Open("busy")
	must(t, err)
	silent := make(chan struct{})
	r.disturb = func(c *script.Conn, m *script.Message) bool {
		if m.Command == proto.CommandRead {
			<-silent
		}
		return false
	}
	var calls sync.WaitGroup
	calls.Go(func() { busy.ReadAt(make([]byte, 1), 0) })
	synctest.Wait()
	for range others {
		calls.Go(func() { busy.Stat() })
		synctest.Wait()
	}
	ctx, cancel := context.WithCancel(t.Context())
	data := random(size)
	calls.Go(func() { err = r.share.WithContext(ctx).ReplaceFile("dir/name", data, 0o666, time.Time{}) })
	synctest.Wait()
	cancel()
	synctest.Wait()
	close(silent)
	calls.Wait()
	synctest.Wait()
	r.check(t, "afterwards", data, err)
}

// TestReplaceFileRenames has the server refuse to rename the new file, because another client has a file open, or lose the connection
// when it has renamed it, or before: the data is sent once.
func TestReplaceFileRenames(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	const always = 1 << 30
	for _, kind := range kinds() {
		for _, c := range []struct {
			name         string
			refused      int // attempts to rename that are refused
			status       proto.Status
			before, then int // attempts whose connection is lost before they are carried out, and after
			want         error
		}{
			{"refused once", 1, proto.StatusSharingViolation, 0, 0, nil},
			{"refused again and again", 5, proto.StatusSharingViolation, 0, 0, nil},
			{"refused always", always, proto.StatusSharingViolation, 0, 0, smb.Status(proto.StatusSharingViolation)},
			{"forbidden", always, proto.StatusAccessDenied, 0, 0, smb.Status(proto.StatusAccessDenied)},
			{"lost before", 0, 0, 1, 0, nil},
			{"lost after", 0, 0, 0, 1, nil},
			{"lost before, again and again", 0, 0, always, 0, smb.ErrConnLost},
		} {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newReplacing(t, kind)
					var mu sync.Mutex // connections overlap
					renames, writes := 0, 0
					var after *script.Conn
					r.disturb = func(sc *script.Conn, m *script.Message) bool {
						mu.Lock()
						defer mu.Unlock()
						after = nil
						switch {
						case m.Command == proto.CommandWrite:
							writes++
						case m.Command == proto.CommandSetInfo && proto.InfoClass(m.Body[3]) == proto.ClassRename:
							renames++
							switch {
							case renames <= c.refused:
								sc.Refuse(m, c.status)
								return true
							case renames <= c.before:
								r.lose(sc)
								return true
							}
							if renames <= c.then {
								after = sc
							}
						}
						return false
					}
					r.after = func(sc *script.Conn) {
						mu.Lock()
						defer mu.Unlock()
						if after == sc {
							r.lose(sc)
						}
					}
					data := random(500)
					begun := time.Now()
					err := r.share.ReplaceFile("dir/name", data, 0o666, time.Time{})
					took := time.Since(begun)
					synctest.Wait()
					r.check(t, "afterwards", data, err)
					if !errors.Is(err, c.want) || writes != 1 || took > 4*time.Second {
						t.Errorf("%v after %v, %d attempts to rename, %d WRITEs", err, took, renames, writes)
					}
				})
			})
		}
	}
}
