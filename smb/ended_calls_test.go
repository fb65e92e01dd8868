package smb_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// wrappedConn is a net.Conn of a type that the client does not know, as tls.Conn is.
type wrappedConn struct{ net.Conn }

// TestEndedCallsLeaveNothingOpen makes calls whose contexts end at random moments. Afterwards Samba holds no file open and no range
// locked, every file can be replaced, renamed and removed, and no other file stays.
//
// Alternate data streams are left to TestCancelledCalls: when several goroutines open and remove them on one connection, Samba 4.17
// was seen to try waiting CREATEs in turns, endlessly, and to read nothing from the connection meanwhile.
func TestEndedCallsLeaveNothingOpen(t *testing.T) {
	limits := smb.Limits{OperationTimeout: 10 * time.Second} // if Samba hangs, the test fails
	t.Run("socket", func(t *testing.T) {
		eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) { testEndedCalls(t, srv, mount(t, srv, smb.Dialer{Limits: limits})) })
	})
	t.Run("wrapped", func(t *testing.T) {
		eachMode(t, rig.Config{}, func(t *testing.T, srv *rig.Server) {
			testEndedCalls(t, srv, mount(t, srv, smb.Dialer{
				Limits: limits,
				DialFunc: through(t, func(ctx context.Context, network, addr string) (net.Conn, error) {
					var d net.Dialer
					nc, err := d.DialContext(ctx, network, addr)
					return &wrappedConn{nc}, err
				}),
			}))
		})
	})
}

func testEndedCalls(t *testing.T, srv *rig.Server, share *smb.Share) {
	names := []string{"a", "b", "c", "dir/d"}
	must(t, share.Mkdir("dir", 0o777))
	for _, name := range names {
		must(t, share.WriteFile(name, random(3000), 0o666))
	}
	seesWhatIsOpen(t, srv, share)
	const goroutines, rounds = 6, 300
	var calls sync.WaitGroup
	for g := range goroutines {
		calls.Go(func() {
			for range rounds {
				e := endingCall{
					share: share, own: fmt.Sprint("own", g),
					name: names[rand.IntN(len(names))], other: names[rand.IntN(len(names))],
				}
				if what, err := e.run(); errors.Is(err, smb.ErrConnLost) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	calls.Wait()
	awaitNothing(t, "the server holds open", srv.OpenFiles)
	for _, name := range names {
		must(t, share.ReplaceFile(name, []byte("new"), 0o666, time.Time{}))
		must(t, share.Rename(name, name+"2"))
		must(t, share.Remove(name+"2"))
	}
	must(t, share.Remove("dir"))
	awaitNothing(t, "the share has the files", func() (names []string, err error) {
		list, err := share.ReadDir(".")
		for _, x := range list {
			names = append(names, x.Name())
		}
		return names, err
	})
}

// seesWhatIsOpen holds that srv.OpenFiles reports an open file and a lock, so that the test is not about nothing.
func seesWhatIsOpen(t *testing.T, srv *rig.Server, share *smb.Share) {
	t.Helper()
	if open := rigtest.OpenFiles(t, srv); len(open) != 0 {
		t.Errorf("before any is opened the server reports %q", open)
	}
	f, err := share.OpenFile("a", os.O_RDWR, 0)
	must(t, err)
	must(t, f.Lock(0, 10, smb.LockExclusive))
	if open := rigtest.OpenFiles(t, srv); len(open) != 2 {
		t.Errorf("with an open file and a lock the server reports %q", open)
	}
	must(t, f.Close())
}

// awaitNothing waits until list is empty: what a call has left to the connection may be done after its return.
func awaitNothing(t *testing.T, what string, list func() ([]string, error)) {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		names, err := list()
		must(t, err)
		if len(names) == 0 {
			return
		}
		select {
		case <-limit:
			t.Errorf("%s %q", what, names)
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// endingCall is a call whose context ends at a random moment.
type endingCall struct {
	share       *smb.Share
	name, other string // of files that other goroutines use, too
	own         string // what the names of the goroutine's own files begin with
}

// run makes one call of those below.
func (e *endingCall) run() (what string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(rand.IntN(3000))*time.Microsecond)
	defer cancel()
	s := e.share.WithContext(ctx)
	size := []int{0, 500, 60_000, 300_000}[rand.IntN(4)]
	data := make([]byte, size)
	withFile := func(f *smb.File, err error) error {
		if err != nil {
			return err
		}
		defer f.Close()
		switch rand.IntN(8) {
		case 0:
			_, err = f.ReadAt(make([]byte, 100_000), 0)
		case 1:
			_, err = f.Write(data)
		case 2:
			err = f.Lock(0, 10, smb.LockExclusive)
		case 3:
			err = f.TryLock(0, 10, smb.LockShared)
		case 4:
			_, err = f.Stat()
		case 5:
			err = f.Truncate(int64(size))
		case 6:
			_, err = f.Read(make([]byte, 10))
		case 7:
			err = f.Sync()
		}
		return err
	}
	calls := []struct {
		what string
		call func() error
	}{
		{"Open", func() error { return withFile(s.Open(e.name)) }},
		{"Create", func() error { return withFile(s.Create(e.name)) }},
		{"OpenFile", func() error { return withFile(s.OpenFile(e.name, os.O_RDWR|os.O_CREATE, 0o666)) }},
		{"OpenFile O_TRUNC 0444", func() error { return withFile(s.OpenFile(e.name, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o444)) }},
		{"Open dir", func() error {
			f, err := s.Open("dir")
			if err == nil {
				_, err = f.ReadDir(1)
				f.Close()
			}
			return err
		}},
		{"ReadFile", func() error { _, err := s.ReadFile(e.name); return err }},
		{"WriteFile", func() error { return s.WriteFile(e.name, data, 0o666) }},
		{"WriteNewFile", func() error {
			err := s.WriteNewFile(e.own, data, 0o666, time.Unix(1e9, 0))
			e.share.Remove(e.own)
			return err
		}},
		{"ReplaceFile", func() error { return s.ReplaceFile(e.name, data, 0o666, time.Unix(1e9, 0)) }},
		{"Rename", func() error { return s.Rename(e.name, e.other) }},
		{"Remove", func() error { return s.Remove(e.name) }},
		{"Mkdir", func() error { err := s.Mkdir(e.own+"d", 0o777); e.share.Remove(e.own + "d"); return err }},
		{"ReadDir", func() error { _, err := s.ReadDir("."); return err }},
		{"Stat", func() error { _, err := s.Stat(e.name); return err }},
		{"Copy", func() error { _, err := s.Copy(e.name, e.other); return err }},
		{"Symlink", func() error { err := s.Symlink("a", e.own+"l"); e.share.Remove(e.own + "l"); return err }},
		{"Readlink", func() error { _, err := s.Readlink(e.name); return err }},
		{"At", func() error { _, err := s.At(time.Unix(1e9, 0)).Stat(e.name); return err }},
		{"Streams", func() error { _, err := s.Streams(e.name); return err }},
		{"RemoveAll", func() error { return s.RemoveAll(e.own) }},
		{"Watch", func() error {
			w, err := s.Watch("dir", smb.WatchAll)
			if err != nil {
				return err
			}
			_, err = w.Next(ctx)
			w.Close()
			return err
		}},
		{"Mount", func() error {
			other, err := s.Session().Mount(ctx, e.share.Name())
			if err != nil {
				return err
			}
			_, err = other.WithContext(ctx).Stat(e.name)
			other.WithContext(ctx).Unmount()
			return err
		}},
	}
	c := calls[rand.IntN(len(calls))]
	return c.what, c.call()
}
