package smb_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
)

// TestImpacket uses impacket's server, which supports dialect 2.0.2 and signing, and deviates from Windows in
// several ways: what it supports works, and the error names what it lacks. Requests that would otherwise be
// one compound are sent one by one, since it signs the replies of a compound wrongly.
func TestImpacket(t *testing.T) {
	srv := rigtest.StartImpacket(t)
	d := smb.Dialer{Initiator: smb.NTLM{User: srv.User, Password: srv.Password}, Pool: newPool(t), DialFunc: dialer(t)}
	sess, err := d.Dial(t.Context(), srv.Addr)
	must(t, err)
	defer sess.Close()
	share, err := sess.Mount(t.Context(), srv.Share)
	must(t, err)
	if i := sess.Info(); i.Dialect != smb.SMB202 {
		t.Fatalf("%+v", i)
	}
	large := random(300 << 10)
	for name, data := range map[string][]byte{"small": []byte("hello"), "large": large, "empty": nil} {
		must(t, share.WriteFile(name, data, 0o666))
		if b, err := share.ReadFile(name); err != nil || !bytes.Equal(b, data) {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
		if fi, err := share.Stat(name); err != nil || fi.Size() != int64(len(data)) {
			t.Errorf("%s: %v, %v", name, fi, err)
		}
	}

	f, err := share.OpenFile("small", os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = f.WriteString(" world")
	must(t, err)
	must(t, f.Close())
	if b, err := os.ReadFile(filepath.Join(srv.Dir, "small")); err != nil || string(b) != "hello world" {
		t.Errorf("appended: %q, %v", b, err)
	}

	must(t, share.Chtimes("small", time.Time{}, time.Unix(1e9, 0))) // the server reports success and does nothing
	must(t, share.ReplaceFile("small", []byte("replaced"), 0o666, time.Unix(1e9, 0)))
	must(t, share.WriteNewFile("new", []byte("new"), 0o666, time.Time{}))
	if err := share.WriteNewFile("new", []byte("x"), 0o666, time.Time{}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a name that is taken: %v", err)
	}
	must(t, share.Rename("new", "renamed"))
	if _, err := share.Statfs(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Statfs: %v", err)
	}

	must(t, share.MkdirAll("d/e/f", 0o777))
	must(t, share.WriteFile("d/e/x", large, 0o666))
	if list, err := share.ReadDir("d/e"); err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	must(t, share.RemoveAll("d"))
	if _, err := os.Stat(filepath.Join(srv.Dir, "d")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after RemoveAll: %v", err)
	}
	if list, err := sess.Shares(t.Context()); err != nil || len(list) == 0 {
		t.Errorf("%v, %v", list, err)
	}
	must(t, share.Unmount())
	must(t, sess.Logoff(t.Context()))
}
