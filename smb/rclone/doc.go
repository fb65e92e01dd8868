// Package rclone is a backend for rclone on package smb: a remote of type "tarnsmb" with the options of rclone's own backend "smb",
// and Tarn's.
//
//	rclone.Register()
//	cmd.Main() // of github.com/rclone/rclone/cmd
//
// Command rclone-tarn is rclone with all its commands and backends, and this one. In rclone.conf the remote's line "type = smb"
// becomes "type = tarnsmb", and back.
//
// # What differs from rclone's smb
//
// The server copies files by itself, removes directories with many requests in flight, and reports changes to a mount. Messages are
// signed unless allow_unsigned is set. Symbolic links are left out, as by rclone's local backend, unless links or copy_links is set. A
// session reconnects by itself. An upload with --inplace over an existing file keeps its permissions, streams and time of creation.
//
// # Not there
//
// Directories have no metadata besides the time of modification. There is no ListR: SMB lists one directory at a time, and rclone lists many
// at once by itself.
package rclone
