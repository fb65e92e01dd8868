package h2http

import (
	"context"
	"errors"
	"net"
	"testing"
)

// TestGroupsWithoutConnectionsAreForgotten: a client that asks many hosts for a connection and gets none keeps nothing of them,
// whether its requests have ended before a dial or an http.Transport is to dial.
func TestGroupsWithoutConnectionsAreForgotten(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for _, of := range []struct {
		name string
		ctx  context.Context
		mode dialMode
		want error
	}{
		{"ended", ended, dialing, context.Canceled},
		{"not dialling", context.Background(), notDialing, noConnError{}},
	} {
		t.Run(of.name, func(t *testing.T) {
			p, err := newClientPool(clientSettings{dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, errors.New("dialled")
			}})
			if err != nil {
				t.Fatal(err)
			}
			for _, host := range []string{"a", "b:80", "c"} {
				if _, _, err := p.group("http", host).get(of.ctx, nil, of.mode); !errors.Is(err, of.want) {
					t.Errorf("%s: %v, want %v", host, err, of.want)
				}
			}
			if n := len(p.groups); n != 0 {
				t.Errorf("%d names of hosts are kept", n)
			}
		})
	}
}
