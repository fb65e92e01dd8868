package smb_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestWriteNewFileCancelled ends the context of WriteNewFile before the call, and at each of its requests. A file that had the name
// before keeps its content, and a file that WriteNewFile has created is removed.
func TestWriteNewFileCancelled(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range append(kinds(), "plain/one credit") {
		for _, size := range []int{500, 100_000} {
			for _, name := range []string{"name", "new"} {
				for _, how := range []string{"before", "after"} {
					t.Run(fmt.Sprint(kind, "/", size, "/", name, "/", how), func(t *testing.T) {
						for at := 0; ; at++ {
							more := true
							synctest.Test(t, func(t *testing.T) { more = testWriteNewFileCancelled(t, kind, name, size, how, at) })
							if !more {
								break
							}
						}
					})
				}
			}
		}
	}
}

// testWriteNewFileCancelled ends the context at the request at, from 1 on, or before the call, and reports whether there are more
// requests.
func testWriteNewFileCancelled(t *testing.T, kind, name string, size int, how string, at int) (more bool) {
	r := newReplacing(t, kind)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if at == 0 {
		cancel()
		more = true
	}
	first, resume := r.received, make(chan struct{})
	end := func(now string) {
		if r.received == first+at && how == now {
			more = true
			cancel()
			<-resume
		}
	}
	r.disturb = func(*script.Conn, *script.Message) bool { end("before"); return false }
	r.after = func(*script.Conn) { end("after") }
	data := random(size)
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = r.share.WithContext(ctx).WriteNewFile("dir/"+name, data, 0o666, time.Unix(1e9, 0))
	}()
	synctest.Wait() // the client has done what it can
	close(resume)
	<-done
	synctest.Wait()
	if !r.content(t, "name", r.old) {
		t.Errorf("request %d: %v, and a file that was there before was removed or changed", at, err)
	}
	switch {
	case name == "name":
		if err == nil || !errors.Is(err, fs.ErrExist) && ctx.Err() == nil {
			t.Errorf("request %d: onto a file: %v", at, err)
		}
	case err == nil:
		if !r.content(t, name, data) {
			t.Errorf("request %d: reported as written, and is not", at)
		}
	default:
		if _, left := r.disk.content(`dir\` + name); left {
			t.Errorf("request %d: %v, and the file stays", at, err)
		}
	}
	r.disk.mu.Lock()
	defer r.disk.mu.Unlock()
	if n := len(r.disk.handles); n > 0 {
		t.Errorf("request %d: %v, and the server has %d open files", at, err, n)
	}
	return more
}

// TestUnfinishedFileReplaced has a call fail after it has created a file. Before it removes the file, another client gives the name to one
// of its own, which stays.
func TestUnfinishedFileReplaced(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	calls := map[string]func(s *smb.Share) error{
		"small WriteNewFile": func(s *smb.Share) error { return s.WriteNewFile("dir/new", random(500), 0o666, time.Time{}) },
		"large WriteNewFile": func(s *smb.Share) error { return s.WriteNewFile("dir/new", random(100_000), 0o666, time.Time{}) },
		"Symlink":            func(s *smb.Share) error { return s.Symlink("target", "dir/new") },
		"SymlinkTimes": func(s *smb.Share) error {
			return s.SymlinkTimes("target", "dir/new", time.Time{}, time.Unix(1e9, 0))
		},
	}
	for _, kind := range append(kinds(), "plain/one credit") {
		for call, run := range calls {
			for _, how := range []string{"refused", "cancelled"} {
				t.Run(fmt.Sprint(kind, "/", call, "/", how), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testUnfinishedFileReplaced(t, kind, how, run) })
				})
			}
		}
	}
}

func testUnfinishedFileReplaced(t *testing.T, kind, how string, call func(s *smb.Share) error) {
	r := newReplacing(t, kind)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	others, opened := []byte("another client's"), 0
	answer := make(chan struct{})
	r.disturb = func(c *script.Conn, m *script.Message) bool {
		switch m.Command {
		case proto.CommandCreate:
			if script.NameOf(m) != `dir\new` {
				return false
			}
			switch opened++; {
			case opened == 1 && how == "cancelled":
				cancel()
				<-answer
			case opened == 2:
				r.disk.mu.Lock()
				r.disk.add(`dir\new`).data = others
				r.disk.mu.Unlock()
			}
		case proto.CommandWrite, proto.CommandIoctl:
			if how == "refused" {
				c.Refuse(m, proto.StatusDiskFull)
				return true
			}
		}
		return false
	}
	done := make(chan error)
	go func() { done <- call(r.share.WithContext(ctx)) }()
	synctest.Wait()
	close(answer)
	if err := <-done; err == nil {
		t.Error("no error")
	}
	synctest.Wait()
	if opened != 2 {
		t.Errorf("opened %d times", opened)
	}
	if !r.content(t, "new", others) {
		t.Error("another client's file was removed")
	}
}

// content reports whether the named file has data.
func (r *replacing) content(t *testing.T, name string, data []byte) bool {
	t.Helper()
	got, ok := r.disk.content(`dir\` + name)
	return ok && bytes.Equal(got, data)
}

// TestWriteNewFileUnsent ends the context of WriteNewFile onto an existing file while its requests wait for the socket.
func TestWriteNewFileUnsent(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for _, kind := range kinds() {
		for _, size := range []int{500, 100_000} {
			t.Run(fmt.Sprint(kind, "/", size), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testWriteNewFileUnsent(t, kind, size) })
			})
		}
	}
}

func testWriteNewFileUnsent(t *testing.T, kind string, size int) {
	r := newReplacing(t, kind)
	busy, err := r.share.Open("busy")
	must(t, err)
	silent := make(chan struct{})
	r.disturb = func(_ *script.Conn, m *script.Message) bool {
		if m.Command == proto.CommandRead {
			<-silent
		}
		return false
	}
	done := make(chan error, 2)
	go func() { _, err := busy.ReadAt(make([]byte, 1), 0); done <- err }()
	synctest.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		done <- r.share.WithContext(ctx).WriteNewFile("dir/name", random(size), 0o666, time.Time{})
	}()
	synctest.Wait()
	cancel()
	synctest.Wait()
	close(silent)
	<-done
	<-done
	synctest.Wait()
	if !r.content(t, "name", r.old) {
		t.Error("a file that was there before was removed or changed")
	}
}
