// Package rclone tests that Tarn's packages smb/gosmb2 and smb/krb5/gosmb2 replace go-smb2 in
// rclone: rclone's SMB backend built with them passes rclone's own integration
// suites against a real Samba server, and its copies are compared with those of rclone as it is shipped.
//
// TARN_LONG=1 runs all suites and large copies; without it the backend's suite runs, and small ones. BenchmarkCopy measures the copies
// (bench/run.sh rclone).
package rclone
