// Package h2http serves net/http handlers, and sends net/http requests, over HTTP/2
// on package h2.
//
// An existing program changes one line:
//
//	srv := &http.Server{Addr: ":8443", Handler: mux}
//	h2http.ConfigureServer(srv, nil) // before ListenAndServeTLS
//
// [ConfigureServer] installs this package where net/http looks for its HTTP/2: in
// TLSNextProto. HTTP/1.1, ALPN, Serve and Shutdown stay net/http's. [Serve] and
// [ServeTLS] accept connections themselves, so that no goroutine and no buffer of
// net/http's stands behind an HTTP/2 connection.
//
// # Semantics
//
// What net/http documents for handlers holds here. Settings are those of
// [http.Server] and [http.HTTP2Config]; one that this package cannot honour is refused
// with an error.
//
// # Memory
//
// Bodies are pooled memory inside, and copies outside: nothing that a handler gets from
// Read, Header or Context changes after the exchange has ended.
package h2http
