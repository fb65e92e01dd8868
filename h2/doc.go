// Package h2 speaks HTTP/2 (RFC 9113) as gRPC uses it, client and server side,
// over any net.Conn; TLS and ALPN are the caller's. It knows no gRPC.
//
// It is driven by events: [Conn.Run] reads the connection on the caller's
// goroutine and calls the [Handler] for each header list and each piece of data,
// so that a call needs no goroutine of the transport's and no hand-off. Writing
// is combined: [Stream.Write] and [Conn.Open] put their frames in the
// connection's batch and send it themselves if nobody is sending; otherwise
// whoever is sending takes the frames along. Header, data and trailers passed
// together leave in one write. DATA goes out by reference, and comes in as
// references into the receive buffer or, where the handler is a [Lander], straight
// into the memory it names.
//
// # Lifetime of streams
//
// A Stream is held twice: by the connection while it is open, and by the layer
// above from Open or the first OnHeaders until it calls [Stream.Release], exactly
// once. When both are through the Stream is used again for another call. After
// Release no method of it may be called; a [Handle] may be kept and is harmless
// once stale. A stream counts against the server's limit until it is released, so
// that a peer who opens and resets streams cannot run up handlers.
//
// # Hostile peers
//
// Every queue, table and list that a peer can fill has a bound; see [Limits].
//
// # Limitations
//
// No server push, no priorities, no extended CONNECT, no upgrade from HTTP/1.1.
package h2
