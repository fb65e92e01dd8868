package smb2_test

import (
	"context"
	"fmt"
	"log"

	"github.com/tarn-go/tarn/smb"
	smb2 "github.com/tarn-go/tarn/smb/gosmb2"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// A program written for go-smb2 changes its import line alone. The example runs on a server in memory; a real
// program has smb2.Dialer{Initiator: &smb2.NTLMInitiator{User: ..., Password: ...}} and a TCP connection.
func Example() {
	server := &script.Server{Size: 1000}
	nc, err := server.Dial(context.Background(), "tcp", "nas.example.com:445")
	if err != nil {
		log.Fatal(err)
	}
	d := smb2.Dialer{SMB: smb.Dialer{Initiator: scriptedLogin{}}}
	s, err := d.DialConn(context.Background(), nc, "nas.example.com:445")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Logoff()
	share, err := s.Mount("photos")
	if err != nil {
		log.Fatal(err)
	}
	defer share.Umount()
	f, err := share.Open("summer.jpg")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()

	n, err := f.ReadAt(make([]byte, 4096), 900)
	fmt.Println(n, err)
	// Output: 100 EOF
}
