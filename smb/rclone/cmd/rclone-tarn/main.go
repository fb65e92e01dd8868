// Command rclone-tarn is rclone with every backend and command, and the backend tarnsmb.
package main

import (
	_ "github.com/rclone/rclone/backend/all"
	"github.com/rclone/rclone/cmd"
	_ "github.com/rclone/rclone/cmd/all"
	_ "github.com/rclone/rclone/lib/plugin"
	"github.com/tarn-go/tarn/smb/rclone"
)

func main() {
	rclone.Register()
	cmd.Main()
}
