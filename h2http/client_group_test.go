package h2http

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/tarntest"
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

// TestNoStreamIsPermittedYet: SETTINGS that permit no stream are in force before OnSettings is called. A request that asks for a connection
// in between waits for this one: of a second one, which would permit no stream either, nothing would be closed.
func TestNoStreamIsPermittedYet(t *testing.T) {
	p, err := newClientPool(clientSettings{own: Config{Pool: tarntest.NewPool(t)}, dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("dialled")
	}})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		go io.Copy(io.Discard, far)
		http2.NewFramer(far, nil).WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 0})
	}()
	called, leave := make(chan struct{}), make(chan struct{})
	var once sync.Once
	inOnSettings := func() { once.Do(func() { close(called); <-leave }) }
	g := p.group("http", "a")
	g.mu.Lock()
	c := newClientConn(g, near, &singleConn{changed: make(chan struct{}), hook: inOnSettings})
	g.conns = append(g.conns, c)
	g.mu.Unlock()
	<-called
	for _, mode := range []dialMode{dialing, notDialing} {
		if got, wait, err := g.get(t.Context(), nil, mode); got != c || !wait || err != nil {
			t.Errorf("%v, waits: %v, %v; want the connection, and to wait", got, wait, err)
		}
	}
	close(leave)
	c.h2.Close()
	far.Close()
	<-c.h2.Done()
	<-served
}

// TestSilentServerHasPermittedStreams: requests that are given up before a connection's SETTINGS come count against the limit that is assumed
// until then. When they are as many, another connection is dialled: this server has not said that it permits no stream.
func TestSilentServerHasPermittedStreams(t *testing.T) {
	dialled := errors.New("dialled")
	p, err := newClientPool(clientSettings{own: Config{Pool: tarntest.NewPool(t)}, dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, dialled
	}})
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	go io.Copy(io.Discard, far)
	g := p.group("http", "a")
	g.mu.Lock()
	c := g.add(near)
	g.mu.Unlock()
	for c.h2.CanOpen() {
		s, err := c.h2.Open(t.Context(), nil, &h2.Out{Fields: []h2.Field{{Name: ":method", Value: "GET"}}, Ending: h2.End})
		if err != nil {
			t.Fatal(err)
		}
		s.Reset(h2.Cancel)
		s.Release()
	}
	if got, _, err := g.get(t.Context(), nil, dialing); err != dialled {
		t.Errorf("%v, %v; want another connection to be dialled", got, err)
	}
	c.h2.Close()
	far.Close()
	<-c.h2.Done()
}
