package rclone

import (
	_ "github.com/rclone/rclone/backend/onedrive" // one of the backends that the suites are built with
	_ "github.com/rclone/rclone/backend/smb"
	_ "github.com/rclone/rclone/cmd/copy"
	_ "github.com/rclone/rclone/fstest/fstests"

	_ "github.com/tarn-go/tarn/smb/krb5/gosmb2" // replaces go-smb2
)
