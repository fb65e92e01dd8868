// Package hpack encodes and decodes HTTP/2's header blocks (RFC 7541) and checks header lists (RFC 9113 section 8). It knows
// neither connections nor frames. Huffman codes are those of golang.org/x/net/http2/hpack.
//
// A [Decoder] remembers what blocks began with (decode.go), reads representations and keeps the peer's table (table.go,
// scan.go), and checks fields (valid.go). An [Encoder] repeats the bytes of a [Block] (encode.go), and decides which other
// fields enter the table (repeats.go).
package hpack
