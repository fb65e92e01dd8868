// Package h2http serves net/http handlers, and sends net/http requests, over HTTP/2
// on package h2.
//
// An existing program changes one line:
//
//	srv := &http.Server{Addr: ":8443", Handler: mux}
//	h2http.ConfigureServer(srv, nil) // before ListenAndServeTLS
//
// [ConfigureServer] and [ConfigureTransport] install this package where net/http looks
// for its HTTP/2: in TLSNextProto. HTTP/1.1, ALPN, Serve and Shutdown stay net/http's.
// [Serve] and [ServeTLS] accept connections themselves, so that an HTTP/2 connection
// uses no goroutine and no buffer of net/http. [Transport] is an [http.RoundTripper]
// that supports HTTP/2 only.
//
// # Semantics
//
// What net/http documents for handlers and clients holds here. Settings are those of
// [http.Server], [http.Transport] and [http.HTTP2Config]; one that this package does not
// support is refused with an error.
// docs/reference/h2http.md lists the differences.
//
// # Memory
//
// Bodies are held in pooled memory, and copied for handlers and callers: nothing that they
// get from Read, Header or Context changes after the exchange has ended. Only [BodyChain],
// [ResponseChain] and [WriteChain] hand references to pooled memory over, under the
// ownership rules of package tarn.
package h2http
