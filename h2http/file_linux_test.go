package h2http

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarn-go/tarn/internal/leftout"
	"github.com/tarn-go/tarn/tarntest"
)

// TestFileSource: a file's Source supplies what is in memory, ends with the file, and is of no use once the file is closed; there is none
// for other readers.
func TestFileSource(t *testing.T) {
	pool := tarntest.NewPool(t)
	name := filepath.Join(t.TempDir(), "content")
	if err := os.WriteFile(name, bytes.Repeat([]byte("0123456789"), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if newFileSource(bytes.NewReader(nil), pool) != nil {
		t.Error("a Source of what is no file")
	}
	s := newFileSource(f, pool)
	if s == nil {
		t.Fatal("no Source")
	}
	b := s.Supply(4096)
	if s.err != nil {
		leftout.Skip(t, fmt.Sprintf("the file system of %s cannot say what is in memory: %v", name, s.err))
	}
	if n := b.Len(); n == 0 || !bytes.HasPrefix(b.Bytes(), []byte("0123456789")) {
		t.Errorf("%d bytes", n)
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil || at != int64(b.Len()) {
		t.Errorf("the offset is %d after %d bytes: %v", at, b.Len(), err)
	}
	b.Free()
	if _, err := f.Seek(0, io.SeekEnd); err != nil {
		t.Fatal(err)
	}
	if b := s.Supply(4096); b.Len() != 0 || !s.usable() {
		t.Errorf("%d bytes at the end, usable: %v", b.Len(), s.usable())
	}
	f.Close()
	if b := s.Supply(4096); b.Len() != 0 || s.usable() {
		t.Errorf("%d bytes of a closed file, usable: %v", b.Len(), s.usable())
	}
}
