package rpc_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"testing"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"

	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/rpc"
)

// TestALPN: a client of TLS that offers h2 alone, as gRPC's clients do, is served over HTTP/2, whatever else the server permits.
func TestALPN(t *testing.T) {
	cert, _ := testcert.New(t)
	for _, permitted := range [][]string{nil, {"h2"}, {"h2", "http/1.1"}, {"http/1.1", "h2"}} {
		t.Run(fmt.Sprint(permitted), func(t *testing.T) {
			creds := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: permitted})
			_, addr := startTarn(t, &testService{}, rpc.Creds(creds))
			nc, err := tls.Dial("tcp", addr, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
			if err != nil {
				t.Fatal(err)
			}
			if got := nc.ConnectionState().NegotiatedProtocol; got != "h2" {
				t.Errorf("agreed on %q", got)
			}
			p := newRawPeer(t, nc)
			if _, err := io.WriteString(nc, http2.ClientPreface); err != nil {
				t.Fatal(err)
			}
			if err := p.fr.WriteSettings(); err != nil {
				t.Fatal(err)
			}
			id := p.open(false)
			if err := p.fr.WriteData(id, true, prefixed(0, nil)); err != nil {
				t.Fatal(err)
			}
			if got := p.answer(id); got["grpc-status"] != "0" {
				t.Errorf("the call ended with %v", got)
			}
		})
	}
}
