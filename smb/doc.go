// Package smb is a client of SMB 2 and 3 (MS-SMB2), from 2.0.2 to 3.1.1.
//
// Every reply is received into pooled memory ([tarn.Pool]). File data is not copied on the way: a plain or
// signed READ is received directly into the caller's slice, and a plain or signed WRITE is sent by one
// vectored write.
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
// The five rules of package tarn apply. Only [File.ReadBuffer] hands a Buffer to the caller, who frees it
// exactly once. A slice given to a read or a write is borrowed for the call: once the call has returned,
// cancelled or not, the package no longer touches it. After a read that returned an error, the slice's
// contents beyond the n bytes reported are undefined: a signed reply is verified after it was received into
// the slice.
//
// # Errors
//
// A refusal by the server is a [*ResponseError] around a [Status] (an NTSTATUS by name); errors.Is matches it
// with fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and os.ErrDeadlineExceeded where the status has that
// meaning. A failed connection matches [ErrConnLost], a server that broke the protocol [ErrProtocol], and a
// reply without the protection that the session requires [ErrSecurity].
//
// # Concurrency
//
// Sessions, shares and files may be used from any number of goroutines. A file's Read, Write and Seek share
// one position and run one at a time; ReadAt and WriteAt run concurrently. When a call that changes or opens a file returns
// because its context has ended, later calls on that file wait until the server has answered the request.
//
// # Limitations
//
// No SMB 1, no QUIC, RDMA, compression or multichannel, and no client-side caching of
// data: leases are taken only to make handles durable.
package smb
