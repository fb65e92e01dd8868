// Package wire moves bytes between a net.Conn and pooled buffers.
//
// A [Reader] hands out what it read as references into its receive buffer, and
// reads a payload of known length straight into its destination. On a plain TCP
// or Unix connection a Reader that waits holds no memory: it waits for the
// socket to become readable and only then takes a buffer from its pool. On any
// other connection (TLS, in-memory, wrapped) the standard library offers no such
// wait, so a waiting Reader holds one buffer of [IdleWait] bytes; a tls.Conn
// holds memory of its own besides.
//
// A [Writer] gathers small pieces in one pooled buffer and passes large ones by
// reference, so that a frame's header, its payload and whatever follows leave in
// one system call. Small is below 2 KiB on plain TCP and Unix connections, and below 4 KiB
// on others. On a connection that wraps another the wrapper's
// own Write is called; pieces are gathered into writes of whole TLS records, but
// for the last.
//
// References are tarn.Buffers and follow the five rules of package tarn.
package wire
