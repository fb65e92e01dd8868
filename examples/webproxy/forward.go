package main

import (
	"io"
	"maps"
	"net/http"
	"net/url"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
)

// forwardTo returns a handler that sends each request to target by rt.
func forwardTo(target *url.URL, rt http.RoundTripper) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !h2http.CanWriteChain(w) { // a connection of HTTP/1.1 is net/http's
			http.Error(w, "this proxy is for HTTP/2", http.StatusHTTPVersionNotSupported)
			return
		}
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host = target.Scheme, target.Host
		out.RequestURI = ""
		// An h2http.Transport that gets an h2http server's body sends what has been
		// received by reference.
		resp, err := rt.RoundTrip(out)
		if err != nil {
			http.Error(w, "the backend cannot be reached", http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		maps.Copy(w.Header(), resp.Header)
		for key := range resp.Trailer {
			w.Header().Add("Trailer", key)
		}
		w.WriteHeader(resp.StatusCode)
		if err := copyBody(w, resp); err != nil {
			panic(http.ErrAbortHandler) // the header is sent, so only a reset can report the error
		}
		for key, values := range resp.Trailer {
			w.Header()[http.TrailerPrefix+key] = values
		}
	})
}

// copyBody forwards data as soon as it arrives.
func copyBody(w http.ResponseWriter, resp *http.Response) error {
	var c tarn.Chain
	for {
		if err := h2http.ResponseChain(resp, &c); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := h2http.WriteChain(w, &c); err != nil { // takes what c holds
			return err
		}
		w.(http.Flusher).Flush()
	}
}
