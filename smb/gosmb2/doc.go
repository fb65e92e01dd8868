// Package smb2 has the exported API of go-smb2 (github.com/cloudsoda/go-smb2, the maintained
// fork of github.com/hirochachacha/go-smb2) on top of package smb. A program that uses go-smb2
// changes its import line:
//
//	import smb2 "github.com/tarn-go/tarn/smb/gosmb2"
//
// What differs is listed here; everything else behaves as go-smb2 documents it.
//
//   - [Krb5Initiator] needs gokrb5 and is in module github.com/tarn-go/tarn/smb/krb5, package
//     smb/krb5/gosmb2, which has everything of this package too: a program that uses Kerberos
//     imports that one.
//   - Security descriptors are handed over in their self-relative form: the methods whose names
//     end in Raw. Those that use cloudsoda/sddl's type are missing; sddl.FromBinary of the raw
//     form gives that type.
//   - [File.ReadAt] returns io.EOF together with the bytes before the end of the file, as
//     io.ReaderAt demands.
//   - Names are checked before they are sent. A component with one of :*?"<>| is refused with an
//     error that matches fs.ErrInvalid, unless the share is mounted WithMapChars or WithMapPosix.
//   - The file system of [Share.DirFS] keeps to io/fs: names in it, those that Glob returns too,
//     have "/" between their components, and one with "\" is refused.
//   - [File.Stat] does not give the FileId; listings do.
//   - [File.ReadFrom] a File of the same share, and WriteTo one, has the server copy where it can; between
//     shares the data moves through this client.
//   - A session that the server accepts as guest because it does not know the user is refused by
//     default, as by package smb; see AllowGuest of smb.Dialer, which [Dialer.SMB] holds.
//   - As in go-smb2, messages are signed only if the server requires it, or Negotiator.RequireMessageSigning or
//     SMB.RequireSigning is set. The end of the login and the connecting of a share are verified in any case.
//   - A session made by [Dialer.Dial] dials a lost connection again. One made by
//     [Dialer.DialConn] does not.
//   - hirochachacha's Dialer.Dial and DialContext take a connection: call [Dialer.DialConn].
//
// # Ownership
//
// The caller gets no pooled memory. A slice given to a method is borrowed for the call. A *File holds a
// handle on the server until Close; one that becomes unreachable is closed in the background.
//
// # Errors
//
// As in go-smb2: an *os.PathError or *os.LinkError around os.ErrNotExist, os.ErrExist, os.ErrPermission or a
// [*ResponseError] (the server refused), a [*TransportError] (the connection was lost or could not be made),
// an [*InvalidResponseError] (the server broke the protocol), a [*ContextError]. Each also unwraps to the
// error of package smb that caused it.
//
// # Concurrency
//
// As in package smb: everything but a [Dialer]'s Initiator may be used from any goroutine.
package smb2

//lint:file-ignore ST1003 names are go-smb2's
