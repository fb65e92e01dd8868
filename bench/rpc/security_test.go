package rpc

import (
	"crypto/tls"
	"testing"

	"github.com/tarn-go/tarn/internal/testcert"
)

// security is how a connection is protected; with the zero value it is not.
type security struct {
	name   string
	server *tls.Config
	client *tls.Config
}

// securities returns plain text, and TLS with a new certificate.
func securities(tb testing.TB) []security {
	tb.Helper()
	cert, roots := testcert.New(tb)
	return []security{
		{name: "off"},
		{
			name: "on",
			server: &tls.Config{
				Certificates: []tls.Certificate{cert},
				NextProtos:   []string{"h2"},
			},
			client: &tls.Config{RootCAs: roots, NextProtos: []string{"h2"}},
		},
	}
}
