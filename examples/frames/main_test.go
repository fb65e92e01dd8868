package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/tarn-go/tarn/tarntest"
	"github.com/tarn-go/tarn/wire"
)

func Example() {
	main()
	// Output:
	// first
	// second
	// third
}

// TestEcho: what is cut, and what is too long, ends the connection and leaks nothing.
func TestEcho(t *testing.T) {
	long := binary.BigEndian.AppendUint32(nil, longest+1)
	for name, c := range map[string]struct {
		sent, want []byte
		err        error
	}{
		"two messages": {[]byte("\x00\x00\x00\x01a\x00\x00\x00\x02bc"), []byte("\x00\x00\x00\x01a\x00\x00\x00\x02bc"), nil},
		"nothing":      {nil, nil, nil},
		"too long":     {long, nil, wire.ErrPrefix},
	} {
		t.Run(name, func(t *testing.T) {
			pool := tarntest.NewPool(t)
			client, server := net.Pipe()
			result := make(chan error, 1)
			go func() {
				defer server.Close()
				result <- echo(server, pool)
			}()
			got := make(chan []byte, 1)
			go func() {
				var all bytes.Buffer
				for all.Len() < len(c.want) {
					p := make([]byte, 64)
					n, err := client.Read(p)
					all.Write(p[:n])
					if err != nil {
						break
					}
				}
				got <- all.Bytes()
			}()
			client.Write(c.sent)
			if b := <-got; !bytes.Equal(b, c.want) {
				t.Errorf("answered %q, not %q", b, c.want)
			}
			if c.err == nil {
				client.Close()
			}
			if err := <-result; !errors.Is(err, c.err) {
				t.Errorf("ended with %v, not %v", err, c.err)
			}
			client.Close()
		})
	}
}
