// Command smbcopy copies a file from an SMB server to standard output, without a copy in memory between the two.
//
//	SMB_PASSWORD=… smbcopy -user alice nas.example.com photos 2024/summer.jpg > summer.jpg
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/tarn-go/tarn/smb"
)

func main() {
	user := flag.String("user", "", "the user's name; without it the session is anonymous")
	flag.Parse()
	if flag.NArg() != 3 {
		fmt.Fprintln(os.Stderr, "usage: smbcopy [-user NAME] HOST SHARE PATH")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop) // a second interrupt ends the program at once, although Logoff waits for the server
	credentials := smb.NTLM{User: *user, Password: os.Getenv("SMB_PASSWORD")}
	if err := copyFile(ctx, os.Stdout, credentials, flag.Arg(0), flag.Arg(1), flag.Arg(2)); err != nil {
		fmt.Fprintln(os.Stderr, "smbcopy:", err)
		os.Exit(1)
	}
}

// copyFile writes the file to w. A session that its user cannot sign is refused; a connection that is lost is made again.
func copyFile(ctx context.Context, w io.Writer, credentials smb.Initiator, host, shareName, path string) error {
	d := smb.Dialer{Initiator: credentials}
	session, err := d.Dial(ctx, host)
	if err != nil {
		return err
	}
	defer session.Logoff(context.WithoutCancel(ctx))
	share, err := session.Mount(ctx, shareName)
	if err != nil {
		return err
	}
	f, err := share.WithContext(ctx).Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteTo(w)
	return err
}
