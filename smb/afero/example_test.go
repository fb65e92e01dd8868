package afero_test

import (
	"context"
	"fmt"
	"log"

	base "github.com/spf13/afero"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/afero"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// scriptedLogin logs in to scripted servers.
type scriptedLogin struct{}

func (scriptedLogin) Start(context.Context, string) (smb.SecurityContext, error) {
	return script.Start(), nil
}

// Code that works on an afero.Fs works on a share. The example runs on a server in memory.
func Example() {
	server := &script.Server{Size: 1000}
	ctx := context.Background()
	d := smb.Dialer{Initiator: scriptedLogin{}, DialFunc: server.Dial} // a real program: smb.NTLM{User: ..., Password: ...}
	session, err := d.Dial(ctx, "nas.example.com")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Logoff(ctx)
	share, err := session.Mount(ctx, "photos")
	if err != nil {
		log.Fatal(err)
	}

	content, err := base.ReadFile(afero.New(share), "summer.jpg")
	fmt.Println(len(content), err)
	// Output: 1000 <nil>
}
