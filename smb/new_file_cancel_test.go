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
