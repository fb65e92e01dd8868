// This file joins net/http's tests: it puts package h2http into their servers and clients.

package http_test

import (
	. "net/http"
	"os"
	"sync"
	"testing"

	"github.com/tarn-go/tarn/h2http"
)

// ResetProxyEnv is net/http's, which is in a file of its internal tests.
func ResetProxyEnv() {
	for _, v := range []string{"HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "REQUEST_METHOD"} {
		os.Unsetenv(v)
	}
	ResetCachedEnvironment()
}

// TARN_SWAPPED says what is swapped: "server", "client" or "both".
var swapped = os.Getenv("TARN_SWAPPED")

// Each is announced once, so that the test that runs these can see that it was used.
var announceServer, announceClient sync.Once

func swapServer(t testing.TB, s *Server) {
	if swapped == "client" {
		ExportHttp2ConfigureServer(s, nil)
		return
	}
	announceServer.Do(func() { os.Stderr.WriteString("h2http's server is used\n") })
	if err := h2http.ConfigureServer(s, nil); err != nil {
		t.Fatal(err)
	}
}

func swapTransport(tr *Transport) error {
	if swapped == "server" {
		return ExportHttp2ConfigureTransport(tr)
	}
	announceClient.Do(func() { os.Stderr.WriteString("h2http's client is used\n") })
	return h2http.ConfigureTransport(tr, nil)
}
