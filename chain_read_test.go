package tarn_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// reader makes an io.Reader of a function.
type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

func TestReadFromSizes(t *testing.T) {
	var c tarn.Chain
	c.SetPool(tarntest.NewPool(t))
	defer c.Free()
	var asked []int
	left := 4 << 20
	n, err := c.ReadFrom(reader(func(p []byte) (int, error) {
		asked = append(asked, len(p))
		k := min(len(p), left)
		if left -= k; k == 0 {
			return 0, io.EOF
		}
		return k, nil
	}))
	if n != 4<<20 || err != nil {
		t.Fatalf("ReadFrom = %d, %v", n, err)
	}
	if asked[0] != 4<<10 || slices.Max(asked) != 256<<10 || len(asked) > 30 {
		t.Errorf("asked for %v", asked)
	}
}

// TestReadFromPacks: a reader that returns small pieces does not take a buffer for each.
func TestReadFromPacks(t *testing.T) {
	p := tarntest.NewPool(t)
	var c tarn.Chain
	c.SetPool(p)
	defer c.Free()
	want := bytes.Repeat([]byte("0123456789"), 10_000)
	if n, err := c.ReadFrom(iotest.OneByteReader(bytes.NewReader(want))); int(n) != len(want) || err != nil {
		t.Fatalf("ReadFrom = %d, %v", n, err)
	}
	if in := p.Stats().InUse; in > int64(len(want)*5/4) {
		t.Errorf("%d bytes keep %d", len(want), in)
	}
	got, err := io.ReadAll(&c)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestReadFromRepeatedly: a chain that is read into often, a few bytes each time, keeps little memory.
func TestReadFromRepeatedly(t *testing.T) {
	p := tarntest.NewPool(t)
	var c tarn.Chain
	c.SetPool(p)
	defer c.Free()
	if n, err := c.ReadFrom(bytes.NewReader(nil)); n != 0 || err != nil || c.Residue() != 0 {
		t.Errorf("ReadFrom of nothing = %d, %v, and keeps %d buffers", n, err, c.Residue())
	}
	for range 1000 {
		if _, err := c.ReadFrom(bytes.NewReader([]byte("a few bytes"))); err != nil {
			t.Fatal(err)
		}
		if _, err := c.ReadFrom(bytes.NewReader(nil)); err != nil {
			t.Fatal(err)
		}
	}
	if in := p.Stats().InUse; in > int64(2*c.Len()) {
		t.Errorf("%d bytes keep %d", c.Len(), in)
	}
}

func TestReadFromBadReaders(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		then func([]byte) (int, error) // after "hello"
		want error
		n    int64
	}{
		"nothing for ever":  {func([]byte) (int, error) { return 0, nil }, io.ErrNoProgress, 5},
		"fails":             {func([]byte) (int, error) { return 0, broken }, broken, 5},
		"fails with data":   {func(p []byte) (int, error) { return copy(p, "!"), broken }, broken, 6},
		"ends":              {func([]byte) (int, error) { return 0, io.EOF }, nil, 5},
		"ends with data":    {func(p []byte) (int, error) { return copy(p, "!"), io.EOF }, nil, 6},
		"claims more":       {func(p []byte) (int, error) { return len(p) + 1, nil }, tarn.ErrCount, 5},
		"claims much more":  {func([]byte) (int, error) { return int(^uint(0) >> 1), nil }, tarn.ErrCount, 5},
		"claims a negative": {func([]byte) (int, error) { return -1, nil }, tarn.ErrCount, 5},
		"claims and fails":  {func([]byte) (int, error) { return -1, broken }, tarn.ErrCount, 5},
	} {
		t.Run(name, func(t *testing.T) {
			var c tarn.Chain
			c.SetPool(tarntest.NewPool(t))
			first := true
			n, err := c.ReadFrom(reader(func(p []byte) (int, error) {
				if first {
					first = false
					return copy(p, "hello"), nil
				}
				return tt.then(p)
			}))
			if n != tt.n || !errors.Is(err, tt.want) || c.Len() != int(n) {
				t.Errorf("ReadFrom = %d, %v, of which %d are there; want %d, %v", n, err, c.Len(), tt.n, tt.want)
			}
			got, _ := io.ReadAll(&c)
			if !bytes.HasPrefix(got, []byte("hello")) {
				t.Errorf("%q", got)
			}
		})
	}
}

// TestReadFromPanic leaves what was read, and a chain that works.
func TestReadFromPanic(t *testing.T) {
	var c tarn.Chain
	c.SetPool(tarntest.NewPool(t))
	first := true
	if caught(func() {
		c.ReadFrom(reader(func(p []byte) (int, error) {
			if !first {
				panic("reader")
			}
			first = false
			return copy(p, "hello"), nil
		}))
	}) != "reader" {
		t.Error("the reader's panic did not reach the caller")
	}
	if b, err := c.Next(5); err != nil || string(b.Bytes()) != "hello" {
		t.Errorf("%v", err)
	} else {
		b.Free()
	}
}

func TestReadFromSocket(t *testing.T) {
	client, server := pair(t, "tcp", "127.0.0.1:0")
	p := tarntest.NewPool(t)
	out, want := chainOf(p, 2000, 1000)
	sent := make(chan error, 1)
	go func() {
		_, err := out.WriteTo(client)
		client.(*net.TCPConn).CloseWrite()
		sent <- err
	}()
	var c tarn.Chain
	c.SetPool(p)
	n, err := c.ReadFrom(server)
	if int(n) != len(want) || err != nil || <-sent != nil {
		t.Errorf("ReadFrom = %d, %v", n, err)
	}
	got, err := io.ReadAll(&c)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}
