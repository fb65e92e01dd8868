// Package proto encodes and decodes the messages of SMB 2 and 3: encoders append a request to a caller's
// slice, and decoders return views of a reply.
//
// # Conventions
//
//   - A message begins with its 64-byte SMB2 header; every offset in it counts from there.
//     Append adds the body of a request behind a header that the caller has appended
//     (or will fill in): dst may hold anything before that header.
//   - Size is the exact number of bytes that Append adds.
//   - Decode functions take one whole message, header included, already cut out of its
//     compound by [Elements]. What they return aliases it: it is valid for as long as the
//     message's buffer is (rule 3), and a decoder never writes to it.
//   - Every length and offset a peer states is checked against the message before it is
//     used, in 64 bits. Nothing is allocated by a declared length; the few functions that
//     allocate say so. Malformed input gives an error matching [ErrMalformed].
//   - Nothing here keeps state or locks; functions may be called from any goroutine.
//
// Sections cited are those of MS-SMB2 unless another document is named.
package proto
