// Command rclone-tarn is rclone with every backend and command but selfupdate, and the backend tarnsmb.
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
	for _, c := range cmd.Root.Commands() {
		if c.Name() == "selfupdate" { // it would put rclone as it is in this program's place
			cmd.Root.RemoveCommand(c)
		}
	}
	cmd.Main()
}
