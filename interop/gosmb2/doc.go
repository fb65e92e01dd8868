// Package gosmb2 compares Tarn's packages smb/gosmb2 and smb/krb5/gosmb2 with go-smb2: the
// exported API of go-smb2 is compared with theirs, and go-smb2's own integration suite runs on
// them against a real Samba server.
package gosmb2
