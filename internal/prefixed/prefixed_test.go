package prefixed

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
)

type halfCloser interface{ CloseWrite() error }

// TestCloseWrite: the peer of a connection whose writing half is closed gets the end, and what it sends is still read, after the prefix.
func TestCloseWrite(t *testing.T) {
	a, b := faultnet.Dialed(t)
	defer a.Close()
	defer b.Close()
	c := Conn(b, []byte("prefix "))
	if err := c.(halfCloser).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, a); err != nil {
		t.Error(err)
	}
	io.WriteString(a, "and rest")
	a.Close()
	if got, err := io.ReadAll(c); string(got) != "prefix and rest" || err != nil {
		t.Errorf("%q %v", got, err)
	}
}

// TestCloseWriteUnsupported: another connection is not closed.
func TestCloseWriteUnsupported(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	c := Conn(b, nil)
	defer c.Close()
	if err := c.(halfCloser).CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Error(err)
	}
}
