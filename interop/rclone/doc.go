// Package rclone holds Tarn's packages smb/gosmb2 and smb/krb5/gosmb2 to what rclone needs of
// go-smb2: rclone's SMB backend, with them in go-smb2's place, passes rclone's own integration
// suites against a real Samba server, and copies beside rclone as it is shipped.
//
// TARN_LONG=1 runs all suites, and copies as much as the comparison is stated for; without it the
// backend's suite runs, and a short comparison.
package rclone
