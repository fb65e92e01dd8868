// Package swap is added to copies of other projects' tests, by TestSuites.
package swap

import (
	"net/http"
	"os"
	"sync"

	"github.com/tarn-go/tarn/h2http"
)

// Each is announced once, so that TestSuites can see that it was used.
var announceServer, announceClient sync.Once

func swapServer(srv *http.Server) {
	announceServer.Do(func() { os.Stderr.WriteString("h2http's server is used\n") })
	if err := h2http.ConfigureServer(srv, nil); err != nil {
		panic(err)
	}
}

func swapTransport(tr *http.Transport) {
	announceClient.Do(func() { os.Stderr.WriteString("h2http's client is used\n") })
	if err := h2http.ConfigureTransport(tr, nil); err != nil {
		panic(err)
	}
}
