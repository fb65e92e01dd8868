package rclone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rclone/rclone/fs"
	"github.com/rclone/rclone/fs/accounting"
	"github.com/rclone/rclone/fs/config/configmap"
	"github.com/rclone/rclone/fs/fserrors"
	"github.com/rclone/rclone/fs/object"
	rsync "github.com/rclone/rclone/fs/sync"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
)

// newRemote is a remote with files in its root "dir", and that directory on the server.
func newRemote(t *testing.T, options map[string]string) (f *Fs, srv *rig.Server, dir string) {
	t.Helper()
	path, srv := serve(t, rig.Config{Mode: rig.Signed}, options)
	dir = filepath.Join(srv.Dir, "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		if err := srv.Own(dir); err != nil {
			t.Fatal(err)
		}
	}
	return open(t, path+"/dir"), srv, dir
}

func open(t *testing.T, path string) *Fs {
	t.Helper()
	f, err := newRemoteOf(t, path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// newRemoteOf is rclone's fs.NewFs, until the test ends.
func newRemoteOf(t *testing.T, path string) (*Fs, error) {
	r, err := fs.NewFs(t.Context(), path)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { r.(*Fs).Shutdown(context.Background()) })
	return r.(*Fs), nil
}

func put(t *testing.T, f *Fs, name, content string) *Object {
	t.Helper()
	o, err := f.Put(t.Context(), strings.NewReader(content), described(name, int64(len(content))))
	if err != nil {
		t.Fatal(err)
	}
	return o.(*Object)
}

func described(name string, size int64) fs.ObjectInfo {
	return object.NewStaticObjectInfo(name, time.Unix(1e9, 0), size, true, nil, nil)
}

func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

// inUse is how many operations have a lease.
func (c *connections) inUse() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.uses
}

func TestCloseEndsLeaseOnce(t *testing.T) {
	f, _, _ := newRemote(t, nil)
	o := put(t, f, "a", "content")
	r, err := o.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, w, err := f.OpenChunkWriter(t.Context(), "b", described("b", 4))
	if err != nil {
		t.Fatal(err)
	}
	if n := f.conns.inUse(); n != 2 {
		t.Errorf("%d leases", n)
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { r.Close() })
		all.Go(func() { w.Close(t.Context()) })
	}
	all.Wait()
	must(t, w.Abort(t.Context()))
	if n := f.conns.inUse(); n != 0 {
		t.Errorf("%d leases", n)
	}
	if o, err := f.NewObject(t.Context(), "b"); err != nil || o.Size() != 4 {
		t.Errorf("the file that was closed: %v, %v", o, err)
	}
	put(t, f, "c", "the session is still good")
}

// TestAbortChunks gives up uploads in chunks: the file, which has its length already, is removed.
func TestAbortChunks(t *testing.T) {
	f, _, dir := newRemote(t, nil)
	put(t, f, "existing", "content")
	for _, name := range []string{"existing", "new"} {
		ctx, cancel := context.WithCancel(t.Context())
		_, w, err := f.OpenChunkWriter(ctx, name, described(name, 4))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		must(t, w.Abort(ctx))
	}
	if got := names(t, dir); got != "" {
		t.Errorf("there is %s", got)
	}
	if n := f.conns.inUse(); n != 0 {
		t.Errorf("%d leases", n)
	}
}

func TestOpenFileKeepsConnections(t *testing.T) {
	f, _, _ := newRemote(t, map[string]string{"IDLE_TIMEOUT": "1ns"})
	r, err := put(t, f, "a", "content").Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	put(t, f, "b", "another operation ends")
	f.conns.closeIdle()
	if b, err := io.ReadAll(r); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

func TestWaitForConnectionEndsWithContext(t *testing.T) {
	f, _, _ := newRemote(t, map[string]string{"CONNECTIONS": "1"})
	f.conns.slots[0].busy <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.NewObject(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-f.conns.slots[0].busy
	if n := f.conns.inUse(); n != 0 {
		t.Errorf("%d leases", n)
	}
}

// halfway calls at once, when half of its bytes are read.
type halfway struct {
	io.Reader
	left int
	at   func()
}

func (h *halfway) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if h.left -= n; h.left < 0 && h.at != nil {
		h.at()
		h.at = nil
	}
	return n, err
}

func TestCancelledUpload(t *testing.T) {
	f, _, dir := newRemote(t, nil)
	const size = 4 << 20
	put(t, f, "old", "content")
	for _, name := range []string{"new", "old"} {
		ctx, cancel := context.WithCancel(t.Context())
		in := &halfway{bytes.NewReader(make([]byte, size)), size / 2, cancel}
		if _, err := f.Put(ctx, in, described(name, size)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := names(t, dir); got != "old" {
		t.Errorf("there is %s", got)
	}
	if n := f.conns.inUse(); n != 0 {
		t.Errorf("%d leases", n)
	}
}

func TestUploadToRestartedServer(t *testing.T) {
	f, srv, dir := newRemote(t, nil)
	const size = 4 << 20
	in := &halfway{bytes.NewReader(make([]byte, size)), size / 2, func() { restart(t, srv) }}
	if _, err := f.Put(t.Context(), in, described("a", size)); err != nil {
		if !fserrors.IsRetryError(err) {
			t.Errorf("not repeated: %v", err)
		}
		if got := names(t, dir); got != "" {
			t.Errorf("there is %s", got)
		}
	}
	put(t, f, "a", "content")
}

func TestReadFromRestartedServer(t *testing.T) {
	f, srv, _ := newRemote(t, nil)
	o := put(t, f, "a", strings.Repeat("x", 32<<20))
	r, err := o.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	in := &halfway{r, 1 << 20, func() { restart(t, srv) }}
	n, err := io.Copy(io.Discard, in)
	if err != nil && !fserrors.IsRetryError(err) {
		t.Errorf("not repeated after %d bytes: %v", n, err)
	}
}

func restart(t *testing.T, srv *rig.Server) {
	srv.Kill()
	if err := srv.Start(); err != nil {
		t.Error(err)
	}
}

// TestSyncWithRestarts syncs there and back while the server ends and starts again.
func TestSyncWithRestarts(t *testing.T) {
	f, srv, dir := newRemote(t, nil)
	ctx := accounting.WithStatsGroup(t.Context(), dir+srv.Addr) // without errors of other tests or other runs of this one, which are counted
	source, back := t.TempDir(), t.TempDir()
	const files = 300
	for i := range files {
		if err := os.WriteFile(filepath.Join(source, fmt.Sprint(i)), bytes.Repeat([]byte{byte(i)}, 64<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	local := func(path string) fs.Fs {
		l, err := fs.NewFs(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for _, way := range []struct {
		to, from fs.Fs
		dir      string
	}{{f, local(source), dir}, {local(back), f, back}} {
		done := make(chan error, 1)
		go func() { done <- rsync.Sync(ctx, way.to, way.from, true) }()
		awaitFiles(t, way.dir, 20)
		restart(t, srv)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for i := range files {
		want, _ := os.ReadFile(filepath.Join(source, fmt.Sprint(i)))
		if got, err := os.ReadFile(filepath.Join(back, fmt.Sprint(i))); err != nil || !bytes.Equal(want, got) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// awaitFiles returns when dir has n files.
func awaitFiles(t *testing.T, dir string, n int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for range tick.C {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) >= n {
			return
		}
	}
}

// TestRefusedConnection uses the session that there is while another cannot be made.
func TestRefusedConnection(t *testing.T) {
	f, srv, _ := newRemote(t, nil)
	r, err := put(t, f, "a", "content").Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	f.conns.dialer = &smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: "wrong"}}
	put(t, f, "b", "by the session of the reader")
}

func TestNames(t *testing.T) {
	f, _, _ := newRemote(t, nil)
	for _, name := range []string{"a:b*c?", "trailing.", "trailing ", `back\slash`, "ünïcode-日本", "quo\"te<>|", "d./ e ./f."} {
		put(t, f, name, name)
		o, err := f.NewObject(t.Context(), name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if err := o.Remove(t.Context()); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// TestReservedNames syncs files again and again whose names Windows does not have: Samba lists them under short names.
func TestReservedNames(t *testing.T) {
	f, srv, dir := newRemote(t, nil)
	ctx := accounting.WithStatsGroup(t.Context(), dir+srv.Addr) // without errors of other tests, which are counted and end removals
	from := t.TempDir()
	for _, name := range []string{"CON", "aux.c", "aux.json", "nul.d/com1", "FOO~1", "ok"} {
		file := filepath.Join(from, filepath.FromSlash(name))
		must(t, os.MkdirAll(filepath.Dir(file), 0o700))
		must(t, os.WriteFile(file, []byte(name), 0o600))
	}
	local, err := fs.NewFs(t.Context(), from)
	must(t, err)
	for range 3 {
		must(t, rsync.Sync(ctx, f, local, true))
		if got := names(t, dir) + " " + names(t, filepath.Join(dir, "nul.d")); got != "CON FOO~1 aux.c aux.json nul.d ok com1" {
			t.Errorf("there is %s", got)
		}
	}
	back := t.TempDir()
	to, err := fs.NewFs(t.Context(), back)
	must(t, err)
	must(t, rsync.Sync(ctx, to, f, true))
	for _, name := range []string{"CON", "aux.json", "nul.d/com1"} {
		if b, err := os.ReadFile(filepath.Join(back, filepath.FromSlash(name))); err != nil || string(b) != name {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	none, err := fs.NewFs(t.Context(), t.TempDir())
	must(t, err)
	must(t, rsync.Sync(ctx, f, none, false))
	if got := names(t, dir); got != "" {
		t.Errorf("left: %s", got)
	}
}

// TestCase moves a file to its name in another case, and back by way of a third.
func TestCase(t *testing.T) {
	f, _, dir := newRemote(t, nil)
	var o fs.Object = put(t, f, "file", "content")
	for _, name := range []string{"File", "other", "file", "other", "FILE"} {
		var err error
		if _, err = f.NewObject(t.Context(), "FiLe"); err != nil && err != fs.ErrorObjectNotFound {
			t.Fatal(err)
		}
		if o, err = f.Move(t.Context(), o, name); err != nil {
			t.Fatal(err)
		}
		if got := names(t, dir); got != name {
			t.Errorf("%s instead of %s", got, name)
		}
	}
}

// TestMoveOntoForbidden moves a file to the name of one whose attributes the user may not read, in a directory that the user may write to.
func TestMoveOntoForbidden(t *testing.T) {
	f, _, dir := newRemote(t, nil)
	must(t, os.WriteFile(filepath.Join(dir, "b"), []byte("old"), 0))
	if _, err := f.Move(t.Context(), put(t, f, "a", "content"), "b"); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "b")); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestOntoItself(t *testing.T) {
	f, _, dir := newRemote(t, nil)
	o := put(t, f, "d/a", "content")
	if _, err := f.Copy(t.Context(), o, "d/a"); !errors.Is(err, smb.ErrSameFile) {
		t.Error(err)
	}
	if _, err := f.Copy(t.Context(), o, "D/A"); !errors.Is(err, smb.ErrSameFile) {
		t.Error(err)
	}
	if err := f.DirMove(t.Context(), f, "d", "d/e/f"); err != fs.ErrorOverlapping {
		t.Error(err)
	}
	if got := names(t, filepath.Join(dir, "d")); got != "a" {
		t.Errorf("there is %s", got)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "d", "a")); err != nil || string(b) != "content" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestRoots(t *testing.T) {
	// A share whose name is a path is left out.
	path, _ := serve(t, rig.Config{Mode: rig.Signed, Shares: []string{"[odd/name]\npath = /"}}, nil)
	server := open(t, path[:strings.Index(path, ":")+1])
	if entries, err := server.List(t.Context(), ""); err != nil || len(entries) == 0 {
		t.Errorf("%v, %v", entries, err)
	}
	for name, err := range map[string]error{
		"list":  func() error { _, err := server.List(t.Context(), "nosuchshare"); return err }(),
		"mkdir": server.Mkdir(t.Context(), "nosuchshare"),
		"rmdir": server.Rmdir(t.Context(), "nosuchshare/d"),
		"purge": server.Purge(t.Context(), ""),
		"put": func() error {
			_, err := server.Put(t.Context(), strings.NewReader(""), described("a", 0))
			return err
		}(),
		"object": func() error { _, err := server.NewObject(t.Context(), "nosuchshare/a"); return err }(),
		"about":  func() error { _, err := server.About(t.Context()); return err }(),
	} {
		if err == nil {
			t.Errorf("%s succeeds", name)
		}
	}
	share := open(t, path)
	if err := share.Purge(t.Context(), ""); err != fs.ErrorCantPurge {
		t.Error(err)
	}
}

func TestRefusedLogin(t *testing.T) {
	path, _ := remote(t, rig.Signed, map[string]string{"USER": "nosuchuser"})
	if _, err := open(t, path).List(t.Context(), ""); !errors.Is(err, smb.ErrLogin) || !fserrors.IsFatalError(err) || !strings.Contains(err.Error(), passHint) {
		t.Error(err)
	}
}

// TestPassNotObscured has passwords in the configuration as they are, short and long, and one that is obscured like base64 by chance.
func TestPassNotObscured(t *testing.T) {
	for _, pass := range []string{"secret", "correct horse battery staple", "correcthorsebatterystapleandmore"} {
		_, err := newFs(t.Context(), "nas", "share", configmap.Simple{"host": "192.0.2.1", "pass": pass})
		if err == nil || !strings.Contains(err.Error(), passHint) {
			t.Errorf("%s: %v", pass, err)
		}
	}
}

func TestPurgeOfLink(t *testing.T) {
	f, _, dir := newRemote(t, nil)
	put(t, f, "kept/a", "content")
	if err := os.Symlink("kept", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := f.Purge(t.Context(), "link"); !errors.Is(err, smb.ErrLeavesTree) {
		t.Error(err)
	}
	if got := names(t, filepath.Join(dir, "kept")); got != "a" {
		t.Errorf("there is %q", got)
	}
}
