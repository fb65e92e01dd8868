package swap

import (
	"net/http"
	"net/http/httptest"
)

// newSwapped is httptest.NewUnstartedServer.
func newSwapped(h http.Handler) *httptest.Server { return httptest.NewUnstartedServer(h) }

// startNow starts a server with unencrypted HTTP/2, which the default client uses, too.
func startNow(ts *httptest.Server) {
	ts.Config.Protocols = new(http.Protocols)
	ts.Config.Protocols.SetUnencryptedHTTP2(true)
	swapServer(ts.Config)
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	swapTransport(tr)
	ts.Start()
	ts.Client().Transport = tr
	http.DefaultTransport = tr
}

// startSwapped is httptest.NewServer.
func startSwapped(h http.Handler) *httptest.Server {
	ts := newSwapped(h)
	startNow(ts)
	return ts
}
