package directtcp_test

import (
	"errors"
	"io"
	"net"
	"testing"

	"github.com/tarn-go/tarn/smb/internal/directtcp"
	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

func TestHeader(t *testing.T) {
	var h [directtcp.HeaderLen]byte
	directtcp.PutHeader(h[:], 0x123456)
	if h != [4]byte{0, 0x12, 0x34, 0x56} {
		t.Fatalf("%x", h)
	}
	t.Run("lengths", func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		go func() {
			a.Write([]byte{0, 0, 0, 3, 'a', 'b', 'c', 0, 1, 0, 0})
			a.Close()
		}()
		r := wire.NewReader(b, tarntest.NewPool(t))
		defer r.Release()
		if n, err := directtcp.ReadHeader(r, 1<<16); n != 3 || err != nil {
			t.Fatal(n, err)
		}
		f, err := r.Next(3)
		if err != nil || string(f.Bytes()) != "abc" {
			t.Fatal(err)
		}
		f.Free()
		if _, err := directtcp.ReadHeader(r, 1<<16-1); !errors.Is(err, directtcp.ErrHeader) {
			t.Fatalf("beyond the limit: %v", err)
		}
		if n, err := directtcp.ReadHeader(r, 1<<16); n != 1<<16 || err != nil {
			t.Fatal(n, err)
		}
		if _, err := directtcp.ReadHeader(r, 1); err != io.EOF {
			t.Fatal(err)
		}
	})
	t.Run("first byte", func(t *testing.T) {
		a, b := net.Pipe()
		defer b.Close()
		go a.Write([]byte{0x85, 0, 0, 0})
		r := wire.NewReader(b, tarntest.NewPool(t))
		defer r.Release()
		if _, err := directtcp.ReadHeader(r, 10); !errors.Is(err, directtcp.ErrHeader) {
			t.Fatal(err)
		}
		a.Close()
	})
}
