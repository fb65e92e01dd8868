// Package h2 implements HTTP/2 (RFC 9113), client and server side, over any
// net.Conn. TLS and ALPN are the caller's. It contains neither gRPC nor net/http.
//
// It is driven by events: [Conn.Run] reads the connection on the caller's goroutine
// and calls the [Handler] for each header list and each piece of DATA, so that a
// call needs no goroutine of the transport and no hand-off. Frames that are to be
// sent are gathered in batches. [Stream.Write] and [Conn.Open] send the batch
// themselves as far as the socket takes it without waiting. What the socket does not
// take is sent by a writer goroutine, which exists only while bytes wait and shortly
// after; on connections that cannot be written without waiting (TLS, in-memory) it
// sends everything. So a Write never blocks in a system call: it waits until its DATA
// is queued, and its context ends that wait on every kind of connection. Header, DATA
// and trailers passed together leave in one write. DATA is sent by reference, and
// arrives as references into the receive buffer or, where the handler is a [Lander], in
// the memory that it returns.
//
// # Lifetime of streams
//
// A Stream is held twice: by the connection while it is open, and by the layer above
// from Open or the first OnHeaders until it calls [Stream.Release], exactly once,
// or until a Write with [Out].Release returns nil.
// After both the Stream is used again for another call. After Release no method of
// it may be called. A [Handle] may be kept and does nothing once the stream is
// released. A stream counts against the server's limit until it is released, so that
// a peer that opens and resets streams cannot start handlers without bound.
//
// # Hostile peers
//
// Every queue, table and list that a peer can fill has a bound; see [Limits].
//
// # Limitations
//
// No server push, no priorities of RFC 7540 (those of RFC 9218 are honoured), no
// upgrade from HTTP/1.1.
package h2
