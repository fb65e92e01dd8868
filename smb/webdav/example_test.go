package webdav_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"

	"golang.org/x/net/webdav"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/script"
	smbdav "github.com/tarn-go/tarn/smb/webdav"
)

// A WebDAV server whose files are on an SMB server, which is one in memory here.
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
	dav := httptest.NewServer(smbdav.Handler(&webdav.Handler{FileSystem: smbdav.New(share), LockSystem: webdav.NewMemLS()}))
	defer dav.Close()

	answer, err := dav.Client().Get(dav.URL + "/summer.jpg")
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	n, err := io.Copy(io.Discard, answer.Body)
	fmt.Println(answer.StatusCode, n, err)
	// Output: 200 1000 <nil>
}
