// Package smb is a client of SMB 2 and 3 (MS-SMB2), from 2.0.2 to 3.1.1.
//
// Every reply it receives lives in pooled memory ([tarn.Pool]); what is read from or
// written to a file is placed, not copied: a plain or signed READ is received straight
// into the caller's slice, a plain or signed WRITE leaves in one vectored write.
//
//	d := smb.Dialer{Initiator: smb.NTLM{User: "me", Password: secret}}
//	session, err := d.Dial(ctx, "nas.example.com")
//	...
//	share, err := session.Mount(ctx, "photos")
//	...
//	f, err := share.Open("2024/summer.jpg")
//
// A [Share] is like package os, a [File] like [os.File], and [Share.FS] is an [io/fs.FS].
//
// # Ownership
//
// The five rules of package tarn hold. Only [File.ReadBuffer] hands a Buffer to the
// caller; it is freed exactly once. A slice given to a read or a write is borrowed for
// the call: once the call has returned, cancelled or not, the package no longer touches
// it. After a read that returned an error the slice's contents are undefined, beyond the
// n bytes reported: a signed reply is verified after it was placed.
//
// # Errors
//
// What the server answered is a [*ResponseError] around a [Status] (an NTSTATUS by
// name), matched by errors.Is with fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and
// os.ErrDeadlineExceeded where it means that. What broke in between matches
// [ErrConnLost]; a server that broke the protocol, [ErrProtocol]; a reply that the
// session's security forbids, [ErrSecurity].
//
// # Concurrency
//
// Sessions, shares and files may be used from any number of goroutines. A file's
// Read, Write and Seek share one position and take turns; ReadAt and WriteAt do not.
//
// # Limitations
//
// No SMB 1, no QUIC, RDMA, compression or multichannel, and no client-side caching of
// data: leases are taken only to make handles durable.
package smb
