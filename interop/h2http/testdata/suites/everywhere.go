// Package swap is added to copies of other projects' tests, by TestSuitesEverywhere.
package swap

import (
	"net/http"
	"os"
	"sync"

	"github.com/tarn-go/tarn/h2http"
)

// Each is announced once, so that TestSuitesEverywhere can see that it was used.
var announceServer, announceClient sync.Once

// swapped are the servers and transports that have been looked at.
var swapped sync.Map

func first(x any) bool {
	_, again := swapped.LoadOrStore(x, true)
	return !again
}

// The functions are called before a server serves and before each request of a transport: those that have not chosen their protocols get
// HTTP/2, unencrypted, too. httputil.DumpRequestOut's transport is left: it plays an HTTP/1.1 server in its Dial.
func init() {
	var mu sync.Mutex
	http.SwapServer = func(srv *http.Server) {
		mu.Lock()
		defer mu.Unlock()
		if !first(srv) || srv.TLSNextProto != nil {
			return
		}
		if srv.Protocols == nil {
			srv.Protocols = new(http.Protocols)
			srv.Protocols.SetHTTP1(true)
			srv.Protocols.SetHTTP2(true)
			srv.Protocols.SetUnencryptedHTTP2(true)
		}
		announceServer.Do(func() { os.Stderr.WriteString("h2http's server is used\n") })
		if err := h2http.ConfigureServer(srv, nil); err != nil {
			panic(err)
		}
	}
	http.SwapTransport = func(tr *http.Transport) {
		mu.Lock()
		defer mu.Unlock()
		if !first(tr) || tr.Dial != nil || tr.TLSNextProto != nil || tr.Protocols != nil && *tr.Protocols != *only() {
			return
		}
		tr.Protocols = only()
		announceClient.Do(func() { os.Stderr.WriteString("h2http's client is used\n") })
		if err := h2http.ConfigureTransport(tr, nil); err != nil {
			panic(err)
		}
	}
}

// only is the protocols of a transport that was swapped, and of its clones, which are swapped, too.
func only() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP2(true)
	p.SetUnencryptedHTTP2(true)
	return p
}
