package smb2_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/tarn-go/tarn/internal/rig"
	"github.com/tarn-go/tarn/internal/rig/rigtest"
	"github.com/tarn-go/tarn/smb"
	smb2 "github.com/tarn-go/tarn/smb/gosmb2"
	"github.com/tarn-go/tarn/tarntest"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dialer(t testing.TB, srv *rig.Server) *smb2.Dialer {
	return &smb2.Dialer{
		Initiator: &smb2.NTLMInitiator{User: srv.User, Password: srv.Password},
		SMB:       smb.Dialer{Pool: tarntest.NewPool(t)},
	}
}

func dial(t testing.TB, srv *rig.Server) (*smb2.Session, *smb2.Share) {
	t.Helper()
	s, err := dialer(t, srv).Dial(t.Context(), srv.Addr)
	must(t, err)
	t.Cleanup(func() {
		if err := s.Logoff(); err != nil {
			t.Errorf("Logoff: %v", err)
		}
	})
	share, err := s.Mount(srv.Share)
	must(t, err)
	return s, share
}

func TestProgram(t *testing.T) {
	for _, mode := range []rig.Mode{rig.Plain, rig.Signed, rig.Encrypted} {
		t.Run(mode.Name(), func(t *testing.T) {
			srv := rigtest.Start(t, rig.Config{Mode: mode})
			s, share := dial(t, srv)
			must(t, s.Echo())
			t.Run("files", func(t *testing.T) { files(t, srv, share) })
			t.Run("names", func(t *testing.T) { names(t, share) })
			t.Run("directories", func(t *testing.T) { directories(t, share) })
			t.Run("errors", func(t *testing.T) { failures(t, share) })
			t.Run("security", func(t *testing.T) { security(t, share) })
			t.Run("shares", func(t *testing.T) { shares(t, srv, s) })
			t.Run("fs", func(t *testing.T) { dirFS(t, share) })
			must(t, share.Umount())
		})
	}
}

func files(t *testing.T, srv *rig.Server, share *smb2.Share) {
	want := bytes.Repeat([]byte("0123456789abcdef"), 200_000)
	f, err := share.Create("file.bin")
	must(t, err)
	n, err := f.ReadFrom(bytes.NewReader(want))
	if n != int64(len(want)) || err != nil {
		t.Fatalf("ReadFrom: %d, %v", n, err)
	}
	must(t, f.Sync())
	onDisk, err := os.ReadFile(filepath.Join(srv.Dir, "file.bin"))
	must(t, err)
	if !bytes.Equal(onDisk, want) {
		t.Fatal("the disk has other content")
	}
	if at, err := f.Seek(0, io.SeekStart); at != 0 || err != nil {
		t.Fatalf("Seek: %d, %v", at, err)
	}
	var got bytes.Buffer
	if n, err := f.WriteTo(&got); n != int64(len(want)) || err != nil || !bytes.Equal(got.Bytes(), want) {
		t.Fatalf("WriteTo: %d, %v", n, err)
	}
	p := make([]byte, 32)
	if n, err := f.ReadAt(p, int64(len(want)-16)); n != 16 || err != io.EOF {
		t.Errorf("ReadAt over the end: %d, %v", n, err)
	}
	if n, err := f.Read(p); n != 0 || err != io.EOF {
		t.Errorf("Read at the end: %d, %v", n, err)
	}
	if n, err := f.WriteAt([]byte("X"), 5); n != 1 || err != nil {
		t.Errorf("WriteAt: %d, %v", n, err)
	}
	must(t, f.Truncate(10))
	if n, err := f.WriteString("tail"); n != 4 || err != nil {
		t.Errorf("WriteString: %d, %v", n, err)
	}
	must(t, f.Truncate(10))
	fi, err := f.Stat()
	must(t, err)
	st, ok := fi.Sys().(*smb2.FileStat)
	if !ok || fi.Name() != "file.bin" || fi.Size() != 10 || fi.IsDir() || fi.Mode() != 0o666 || st.CreationTime.IsZero() {
		t.Errorf("Stat: %+v", fi)
	}
	if room, err := f.Statfs(); err != nil || room.BlockSize() == 0 || room.TotalBlockCount() < room.AvailableBlockCount() || room.FragmentSize() == 0 {
		t.Errorf("Statfs: %v", err)
	}
	must(t, f.Close())
	if err := f.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second Close: %v", err)
	}
	if err := (*smb2.File)(nil).Close(); err != os.ErrInvalid {
		t.Errorf("Close of nil: %v", err)
	}
	if b, err := share.ReadFile("file.bin"); string(b) != "01234X6789" || err != nil {
		t.Errorf("ReadFile: %q, %v", b, err)
	}

	boom := errors.New("boom")
	f, err = share.Create("file.bin")
	must(t, err)
	defer f.Close()
	if _, err := f.ReadFrom(io.MultiReader(strings.NewReader("ab"), &failing{boom})); err != boom {
		t.Errorf("ReadFrom a reader that fails: %v", err)
	}
	_, err = f.Seek(0, io.SeekStart)
	must(t, err)
	if _, err := f.WriteTo(&failing{boom}); err != boom {
		t.Errorf("WriteTo a writer that fails: %v", err)
	}

	when := time.Unix(1_700_000_000, 123_456_700)
	must(t, share.Chtimes("file.bin", when, when))
	must(t, share.Chmod("file.bin", 0o444))
	fi, err = share.Stat("file.bin")
	must(t, err)
	if !fi.ModTime().Equal(when) || fi.Mode() != 0o444 {
		t.Errorf("Stat: %v, %v", fi.ModTime(), fi.Mode())
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error)  { return 0, f.err }
func (f *failing) Write([]byte) (int, error) { return 0, f.err }

func names(t *testing.T, share *smb2.Share) {
	must(t, share.MkdirAll(`n\a/b`, 0o755))
	f, err := share.Create(`./n/a/b\file`)
	must(t, err)
	must(t, f.Close())
	if f.Name() != `n\a\b\file` {
		t.Errorf("name %q", f.Name())
	}
	for _, op := range []func(string) error{
		func(n string) error { _, err := share.Open(n); return err },
		func(n string) error { _, err := share.Stat(n); return err },
		func(n string) error { return share.Rename(n, "x") },
		func(n string) error { return share.Rename("x", n) },
	} {
		if err := op(`\n`); err == nil || !strings.Contains(err.Error(), "leading") {
			t.Errorf("leading backslash: %v", err)
		}
	}
	for pattern, want := range map[string][]string{
		`n\a\b\f*`:   {`n\a\b\file`},
		`n/*/b`:      {`n\a\b`},
		`n\a\b\file`: {`n\a\b\file`},
		`n\none*`:    nil,
	} {
		if got, err := share.Glob(pattern); err != nil || !slices.Equal(got, want) {
			t.Errorf("Glob(%q) = %q, %v", pattern, got, err)
		}
	}
	if _, err := share.Glob("["); err != smb2.ErrBadPattern {
		t.Errorf("Glob of a bad pattern: %v", err)
	}
	must(t, share.Rename(`n\a\b\file`, `n\moved`))
	if _, err := share.Lstat(`n\moved`); err != nil {
		t.Error(err)
	}
	must(t, share.RemoveAll("n"))
	must(t, share.RemoveAll("n"))
}

func directories(t *testing.T, share *smb2.Share) {
	must(t, share.Mkdir("dir", 0o755))
	defer share.RemoveAll("dir")
	for i := range 7 {
		must(t, share.WriteFile(fmt.Sprintf(`dir\f%d`, i), nil, 0o666))
	}
	list, err := share.ReadDir("dir")
	must(t, err)
	if len(list) != 7 || list[0].Name() != "f0" || list[0].Sys().(*smb2.FileStat).FileName != "f0" {
		t.Errorf("ReadDir: %v", list)
	}
	d, err := share.Open("dir")
	must(t, err)
	defer d.Close()
	total := 0
	for {
		some, err := d.Readdir(3)
		total += len(some)
		if err == io.EOF {
			break
		}
		must(t, err)
	}
	if total != 7 {
		t.Errorf("%d entries", total)
	}
	if names, err := d.Readdirnames(-1); len(names) != 0 || err != nil {
		t.Errorf("after the end: %v, %v", names, err)
	}
}

func failures(t *testing.T, share *smb2.Share) {
	_, err := share.Open("none")
	var pe *os.PathError
	if !os.IsNotExist(err) || !errors.As(err, &pe) || pe.Op != "open" || pe.Path != "none" || pe.Err != os.ErrNotExist {
		t.Errorf("%v", err)
	}
	_, err = share.Open(`none\none`)
	if !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
	must(t, share.Mkdir("there", 0o755))
	defer share.Remove("there")
	if err := share.Mkdir("there", 0o755); !os.IsExist(err) {
		t.Errorf("%v", err)
	}
	if err := share.MkdirAll("there", 0o755); err != nil {
		t.Errorf("%v", err)
	}
	must(t, share.WriteFile("there/x", nil, 0o666))
	err = share.Remove("there")
	var re *smb2.ResponseError
	if !errors.As(err, &re) || re.Code != 0xC0000101 || re.Error() != "response error: STATUS_DIRECTORY_NOT_EMPTY" || !errors.Is(err, smb.Status(0xC0000101)) {
		t.Errorf("%v", err)
	}
	must(t, share.Remove("there/x"))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = share.WithContext(ctx).Stat("there")
	var ce *smb2.ContextError
	if !errors.Is(err, context.Canceled) || !errors.As(err, &ce) || ce.Timeout() {
		t.Errorf("%v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 0)
	defer cancel()
	if _, err = share.WithContext(ctx).Stat("there"); !errors.Is(err, context.DeadlineExceeded) || !os.IsTimeout(err) {
		t.Errorf("%v", err)
	}
	if _, err := share.Open("a:b?"); !errors.Is(err, fs.ErrInvalid) && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("reserved characters: %v", err)
	}
}

// descriptor is a security descriptor as an Encoder.
type descriptor []byte

func (d descriptor) Size() int       { return len(d) }
func (d descriptor) Encode(b []byte) { copy(b, d) }

func security(t *testing.T, share *smb2.Share) {
	must(t, share.MkdirAll("sec", 0o755))
	defer share.RemoveAll("sec")
	must(t, share.WriteFile("sec/b", nil, 0o666))
	must(t, share.WriteFile("sec/a", nil, 0o666))
	const parts = smb2.OwnerSecurityInformation | smb2.GroupSecurityInformation | smb2.DACLSecurityInformation
	sd, err := share.SecurityInfoRaw("sec/a", parts)
	must(t, err)
	f, err := share.Open("sec/a")
	must(t, err)
	defer f.Close()
	if again, err := f.SecurityInfoRaw(parts); err != nil || !bytes.Equal(sd, again) {
		t.Errorf("%x, %v", again, err)
	}
	must(t, share.SetSecurityInfoRaw("sec/a", smb2.DACLSecurityInformation, descriptor(sd)))
	must(t, f.SetSecurityInfoRaw(smb2.DACLSecurityInformation, descriptor(sd)))
	list, err := share.ReadDirPlus("sec", parts)
	must(t, err)
	if len(list) != 2 || list[0].Name() != "a" || list[0].Err != nil || len(list[1].RawSecurityDescriptor) == 0 || list[0].Type() != 0 {
		t.Errorf("%+v", list)
	}
	d, err := share.Open("sec")
	must(t, err)
	defer d.Close()
	if list, err := d.ReaddirPlus(10, parts); len(list) != 2 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := d.ReaddirPlus(10, parts); len(list) != 0 || err != io.EOF {
		t.Errorf("%v, %v", list, err)
	}
}

func shares(t *testing.T, srv *rig.Server, s *smb2.Session) {
	list, err := s.ListShares()
	must(t, err)
	i := slices.IndexFunc(list, func(i smb2.ShareInfo) bool { return i.Name == srv.Share })
	if i < 0 || list[i].Type() != smb2.ShareTypeDiskTree || list[i].Comment != "for tests" || list[i].IsSpecial() {
		t.Errorf("%+v", list)
	}
	names, err := s.WithContext(t.Context()).ListSharenames()
	if err != nil || !slices.Contains(names, "IPC$") {
		t.Errorf("%v, %v", names, err)
	}
	_, err = s.Mount("none")
	var re *smb2.ResponseError
	if !errors.As(err, &re) || re.Code != 0xC00000CC {
		t.Errorf("%v", err)
	}
	if _, err := s.Mount(`\\server\a\b`); err == nil {
		t.Error("mounted a path")
	}
	share, err := s.Mount(`\\whatever\` + srv.Share)
	must(t, err)
	must(t, share.Umount())
}

func dirFS(t *testing.T, share *smb2.Share) {
	must(t, share.MkdirAll("tree/sub", 0o755))
	defer share.RemoveAll("tree")
	must(t, share.WriteFile("tree/one", []byte("1"), 0o666))
	must(t, share.WriteFile("tree/sub/two", []byte("22"), 0o666))
	if err := fstest.TestFS(share.DirFS("tree"), "one", "sub/two"); err != nil {
		t.Error(err)
	}
	if err := fstest.TestFS(share.DirFS(""), "tree/one"); err != nil {
		t.Error(err)
	}
}
