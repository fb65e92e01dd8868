// Package rclone tests that Tarn's packages smb/gosmb2 and smb/krb5/gosmb2 replace go-smb2 in rclone: rclone's SMB backend built with them
// passes rclone's own integration suites against a real Samba server, and its copies are compared with those of rclone as it is shipped.
// The same is tested with Tarn's own backend, of smb/rclone.
//
// TARN_LONG=1 runs all suites in all modes and large copies. BenchmarkCopy measures the copies (bench/run.sh rclone).
package rclone
