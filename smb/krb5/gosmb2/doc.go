// Package smb2 is package github.com/tarn-go/tarn/smb/gosmb2 with the parts of go-smb2's API that
// need other modules: Kerberos (gokrb5) and security descriptors as values (cloudsoda/sddl). A
// program that uses those of github.com/cloudsoda/go-smb2 changes its import line:
//
//	import smb2 "github.com/tarn-go/tarn/smb/krb5/gosmb2"
//
// The other package's documentation applies, except that its variable NORMALIZE_PATH is set there. A *Dialer,
// *Session, *Share or *File of this package embeds the other package's.
package smb2
