package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"

	"github.com/tarn-go/tarn/internal/testcert"
	"google.golang.org/grpc/credentials"
)

// TestSpareOfAnotherVersion: the connection that a dial has made for HTTP/2, and for which the server has selected HTTP/1.1, is not used by
// another dial for HTTP/2, whose transport would send its preface on it, but by the next one for HTTP/1.1.
func TestSpareOfAnotherVersion(t *testing.T) {
	cert, roots := testcert.New(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			sc := tls.Server(nc, &tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"http/1.1"}})
			go func() {
				defer sc.Close()
				_, _ = sc.Read(make([]byte, 1)) // the handshake, and the client's Close
			}()
		}
	}()
	cc, err := NewClient(l.Addr().String(), WithProtocol(Connect), WithTransportCredentials(credentials.NewTLS(
		&tls.Config{RootCAs: roots, ServerName: testcert.Name, NextProtos: []string{"h2", "http/1.1"}})))
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	conns := cc.web.conns
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for range 2 {
		if nc, err := conns.dial(http2)(ctx, "", ""); !errors.Is(err, errVersion) {
			t.Errorf("for HTTP/2: %v, %v", nc, err)
		}
		if v := conns.version.Load(); v != http1 {
			t.Errorf("following calls use HTTP/%d", v)
		}
	}
	l.Close()
	if _, err := conns.dial(http1)(ctx, "", ""); err != nil {
		t.Errorf("for HTTP/1.1: %v", err)
	}
}
