package smb_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/tarntest"
)

func newPool(t testing.TB) *tarn.Pool {
	return tarntest.NewPool(t)
}

// dial opens a session with srv on a checked pool. Unless d requires signing, srv decides whether messages are signed.
func dial(t testing.TB, srv *rig.Server, d smb.Dialer) *smb.Session {
	t.Helper()
	if d.Initiator == nil {
		d.Initiator = smb.NTLM{User: srv.User, Password: srv.Password}
	}
	if d.Pool == nil {
		d.Pool = newPool(t)
	}
	if d.DialFunc == nil {
		d.DialFunc = dialer(t)
	}
	d.AllowUnsigned = !d.RequireSigning
	s, err := d.Dial(context.Background(), srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func mount(t testing.TB, srv *rig.Server, d smb.Dialer) *smb.Share {
	t.Helper()
	sess := dial(t, srv, d)
	for try := 0; ; try++ {
		share, err := sess.Mount(context.Background(), srv.Share)
		if err == nil {
			return share
		}
		// On a loaded machine Samba 4.17 sometimes answers with this status just after its start.
		var status smb.Status
		if !errors.As(err, &status) || status.Error() != "STATUS_NO_MEMORY" || try == 20 {
			t.Fatal(err)
		}
		t.Logf("%v: once more", err)
		<-time.After(200 * time.Millisecond)
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func TestSmoke(t *testing.T) {
	srv := rigtest.Start(t, rig.Config{})
	share := mount(t, srv, smb.Dialer{})
	t.Logf("%+v", share.Session().Info())
	want := random(3<<20 + 17)
	f, err := share.Create("hello.bin")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.Write(want); n != len(want) || err != nil {
		t.Fatal(n, err)
	}
	disk, err := os.ReadFile(filepath.Join(srv.Dir, "hello.bin"))
	if err != nil || !bytes.Equal(disk, want) {
		t.Fatal("the server's disk has other content", err)
	}
	got := make([]byte, len(want)+1)
	if n, err := f.ReadAt(got, 0); n != len(want) || err != io.EOF {
		t.Fatal(n, err)
	}
	if !bytes.Equal(got[:len(want)], want) {
		t.Fatal("read other content")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}
