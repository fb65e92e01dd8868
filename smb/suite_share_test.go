package smb_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/smb"
)

func suiteRename(t *testing.T, srv *rig.Server, share *smb.Share) {
	must(t, share.WriteFile("old", []byte("1"), 0o666))
	must(t, share.WriteFile("other", []byte("2"), 0o666))
	if err := share.RenameNoReplace("old", "other"); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	must(t, share.Rename("old", "other"))
	if got := onDisk(t, srv, "other"); string(got) != "1" {
		t.Errorf("%q", got)
	}
	if _, err := share.Stat("old"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	must(t, share.Mkdir("dir", 0o777))
	must(t, share.Rename("other", "dir/x"))
	if got := onDisk(t, srv, "dir/x"); string(got) != "1" {
		t.Errorf("%q", got)
	}
	must(t, share.RemoveAll("dir"))
}

func suiteAttributes(t *testing.T, srv *rig.Server, share *smb.Share) {
	must(t, share.WriteFile("attr", []byte("12345"), 0o666))
	when := time.Date(2001, 2, 3, 4, 5, 6, 700, time.UTC)
	must(t, share.Chtimes("attr", time.Time{}, when))
	fi, err := share.Stat("attr")
	must(t, err)
	if !fi.ModTime().Equal(when) || fi.Size() != 5 || fi.IsDir() || fi.Name() != "attr" {
		t.Error(fi)
	}
	if st, err := os.Stat(filepath.Join(srv.Dir, "attr")); err != nil || !st.ModTime().Equal(when) {
		t.Error("on disk:", st.ModTime(), err)
	}
	if _, ok := fi.Sys().(*smb.FileStat); !ok {
		t.Errorf("%T", fi.Sys())
	}
	must(t, share.Truncate("attr", 3))
	if got := onDisk(t, srv, "attr"); string(got) != "123" {
		t.Errorf("%q", got)
	}
	must(t, share.Chmod("attr", 0o444))
	if fi, err := share.Lstat("attr"); err != nil || fi.Mode().Perm()&0o222 != 0 {
		t.Error(fi, err)
	}
	if _, err := share.OpenFile("attr", os.O_WRONLY, 0); !errors.Is(err, fs.ErrPermission) {
		t.Error("opened a read-only file for writing:", err)
	}
	must(t, share.Remove("attr"))
	st, err := share.Statfs()
	if err != nil || st.TotalBytes <= 0 || st.AvailableBytes <= 0 || st.BlockSize <= 0 {
		t.Error(st, err)
	}
}

func suiteErrors(t *testing.T, srv *rig.Server, share *smb.Share) {
	_, err := share.Open("nothing here")
	var pe *fs.PathError
	var re *smb.ResponseError
	if !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &pe) || !errors.As(err, &re) ||
		re.Status.Error() != "STATUS_OBJECT_NAME_NOT_FOUND" || re.Command != "CREATE" {
		t.Error(err)
	}
	must(t, share.WriteFile("there", nil, 0o666))
	if _, err := share.OpenFile("there", os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o666); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
	if _, err := share.Session().Mount(t.Context(), "no such share"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	ro, err := share.Session().Mount(t.Context(), "readonly")
	must(t, err)
	if err := ro.WriteFile("x", nil, 0o666); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	must(t, ro.Unmount())
	if _, err := ro.Stat("there"); !errors.Is(err, smb.ErrClosed) || !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	f, err := share.Open("there")
	must(t, err)
	must(t, f.Close())
	if _, err := f.Read(make([]byte, 1)); !errors.Is(err, smb.ErrClosed) {
		t.Error(err)
	}
	if err := f.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
	must(t, share.Session().Echo(t.Context()))
}

func suiteCopy(t *testing.T, srv *rig.Server, share *smb.Share) {
	for _, size := range []int{0, 5, 1 << 20, 18<<20 + 5} {
		want := random(size)
		must(t, os.WriteFile(filepath.Join(srv.Dir, "src"), want, 0o666))
		n, err := share.Copy("dst", "src")
		if n != int64(size) || err != nil {
			t.Fatal(n, err)
		}
		if !bytes.Equal(onDisk(t, srv, "dst"), want) {
			t.Fatal("the copy has other content")
		}
	}
}

func suiteLocks(t *testing.T, srv *rig.Server, share *smb.Share) {
	must(t, share.WriteFile("lock", make([]byte, 100), 0o666))
	a, err := share.OpenFile("lock", os.O_RDWR, 0)
	must(t, err)
	defer a.Close()
	b, err := share.OpenFile("lock", os.O_RDWR, 0)
	must(t, err)
	defer b.Close()
	must(t, a.Lock(10, 20, smb.LockExclusive))
	if err := b.TryLock(15, 1, smb.LockShared); !errors.Is(err, smb.ErrLocked) {
		t.Error(err)
	}
	must(t, b.TryLock(30, 1, smb.LockShared))
	got := make(chan error, 1)
	go func() { got <- b.Lock(10, 20, smb.LockExclusive) }()
	must(t, share.Session().Echo(t.Context()))
	must(t, a.Unlock(10, 20))
	must(t, <-got)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { got <- a.WithContext(ctx).Lock(10, 20, smb.LockExclusive) }()
	must(t, share.Session().Echo(t.Context()))
	cancel()
	if err := <-got; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	must(t, b.Unlock(10, 20))
}

func suiteWatch(t *testing.T, srv *rig.Server, share *smb.Share) {
	must(t, share.Mkdir("watched", 0o777))
	w, err := share.Watch("watched", smb.WatchAll)
	must(t, err)
	type result struct {
		events []smb.Event
		err    error
	}
	got := make(chan result, 1)
	next := func() { e, err := w.Next(t.Context()); got <- result{e, err} }
	go next()
	var r result
	for tries := 0; ; tries++ { // the first change may come before the server watches
		must(t, share.WriteFile("watched/new", []byte("x"), 0o666))
		must(t, share.Remove("watched/new"))
		select {
		case r = <-got:
		case <-time.After(100 * time.Millisecond):
			if tries < 50 {
				continue
			}
			t.Fatal("no change was reported")
		}
		break
	}
	if r.err != nil || len(r.events) == 0 || r.events[0].Name != "new" {
		t.Error(r.events, r.err)
	}
	w2, err := share.Watch("watched", smb.WatchAll)
	must(t, err)
	go func() { e, err := w2.Next(t.Context()); got <- result{e, err} }()
	must(t, share.Session().Echo(t.Context()))
	must(t, w2.Close())
	if r := <-got; !errors.Is(r.err, smb.ErrClosed) && len(r.events) == 0 {
		t.Error(r.events, r.err)
	}
	must(t, w.Close())
	must(t, share.RemoveAll("watched"))
}

func suiteFS(t *testing.T, srv *rig.Server, share *smb.Share) {
	must(t, share.MkdirAll("fs/sub/deep", 0o777))
	must(t, share.WriteFile("fs/a.txt", []byte("a"), 0o666))
	must(t, share.WriteFile("fs/sub/b.txt", random(500), 0o666))
	must(t, share.WriteFile("fs/sub/deep/c", nil, 0o666))
	if err := fstest.TestFS(share.FS("fs"), "a.txt", "sub/b.txt", "sub/deep/c"); err != nil {
		t.Error(err)
	}
	must(t, share.RemoveAll("fs"))
}

func suiteShares(t *testing.T, srv *rig.Server, share *smb.Share) {
	list, err := share.Session().Shares(t.Context())
	must(t, err)
	found := map[string]smb.ShareInfo{}
	for _, s := range list {
		found[s.Name] = s
	}
	if s := found["share"]; s.Type != smb.ShareDisk || s.Comment != "for tests" {
		t.Error(list)
	}
	if s := found["IPC$"]; s.Type&^smb.ShareSpecial != smb.ShareIPC {
		t.Error(list)
	}
}

// suiteCancel cancels reads after 0 to 2.4 ms; the connection stays intact.
func suiteCancel(t *testing.T, srv *rig.Server, share *smb.Share) {
	want := random(2 << 20)
	must(t, share.WriteFile("cancel", want, 0o666))
	f, err := share.Open("cancel")
	must(t, err)
	defer f.Close()
	got := make([]byte, len(want))
	cancelled := 0
	for i := range 60 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*40*time.Microsecond)
		clear(got)
		n, err := f.WithContext(ctx).ReadAt(got, 0)
		cancel()
		if err != nil {
			cancelled++
			if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
		if !bytes.Equal(got[:n], want[:n]) {
			t.Fatal("read other content")
		}
		clear(got) // the slice is ours again: the race detector reports later writes
	}
	t.Logf("%d of 60 were cancelled", cancelled)
	if n, err := f.ReadAt(got, 0); n != len(want) || err != nil || !bytes.Equal(got, want) {
		t.Fatal("after cancelling:", n, err)
	}
}

func suiteSecurity(t *testing.T, srv *rig.Server, share *smb.Share) {
	must(t, share.WriteFile("sd", nil, 0o666))
	sd, err := share.SecurityDescriptor("sd", smb.OwnerSecurity|smb.GroupSecurity|smb.DACLSecurity)
	if err != nil || len(sd) < 20 {
		t.Fatal(sd, err)
	}
	must(t, share.SetSecurityDescriptor("sd", smb.DACLSecurity, sd))
}
