// Package sddl reads and writes security descriptors (MS-DTYP 2.4.6), in their
// self-relative binary form, which [smb.Share.SecurityDescriptor] gives and
// [smb.Share.SetSecurityDescriptor] takes, and in the security descriptor definition
// language (MS-DTYP 2.5.1):
//
//	b, err := share.SecurityDescriptor("report.txt", smb.OwnerSecurity|smb.DACLSecurity)
//	d, err := sddl.Decode(b)
//	fmt.Println(d) // O:BAD:PAI(A;;FA;;;BA)(A;;0x1200a9;;;WD)
//
// Conditional, callback and object entries have another layout: they are kept as bytes in the binary form and
// refused in text.
//
// [smb.Share.SecurityDescriptor]: https://pkg.go.dev/github.com/tarn-go/tarn/smb#Share.SecurityDescriptor
// [smb.Share.SetSecurityDescriptor]: https://pkg.go.dev/github.com/tarn-go/tarn/smb#Share.SetSecurityDescriptor
package sddl
