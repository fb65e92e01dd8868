package smb_test

import (
	"context"
	"fmt"
	"io/fs"
	"log"
	"os"
	"time"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// The example runs on a server in memory: DialFunc connects to it and fixedKey logs in.
func Example() {
	server := &script.Server{Size: 1000}
	ctx := context.Background()

	d := smb.Dialer{Initiator: fixedKey{}, DialFunc: server.Dial} // a real program: smb.NTLM{User: ..., Password: ...}
	session, err := d.Dial(ctx, "nas.example.com")
	if err != nil {
		log.Fatal(err)
	}
	defer session.Logoff(ctx)

	share, err := session.Mount(ctx, "photos")
	if err != nil {
		log.Fatal(err)
	}
	f, err := share.Open("2024/summer.jpg")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()

	n, err := f.ReadAt(make([]byte, 4096), 900)
	fmt.Println(n, err)
	// Output: 100 EOF
}

// A share is an fs.FS: programs that walk, glob or serve an fs.FS work on it.
func ExampleShare_FS() {
	var share *smb.Share // of Session.Mount
	if share == nil {
		return
	}
	fs.WalkDir(share.FS("2024"), ".", func(name string, d fs.DirEntry, err error) error {
		fmt.Println(name)
		return err
	})
}

// A context bounds the operations on a share or a file. When it ends, the connection stays open.
func ExampleShare_WithContext() {
	var share *smb.Share // of Session.Mount
	if share == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := share.WithContext(ctx).WriteFile("notes.txt", []byte("hello"), 0o666); err != nil {
		log.Print(os.IsTimeout(err))
	}
}

// ReadBuffer returns the receive buffer itself; the caller frees it.
func ExampleFile_ReadBuffer() {
	var f *smb.File // of Share.Open
	if f == nil {
		return
	}
	buf, err := f.ReadBuffer(context.Background(), 0, 1<<20)
	if err != nil {
		return
	}
	defer buf.Free()
	os.Stdout.Write(buf.Bytes())
}
