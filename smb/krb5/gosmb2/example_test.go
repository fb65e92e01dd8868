package smb2_test

import (
	"context"
	"fmt"
	"log"
	"net"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"

	smb2 "github.com/tarn-go/tarn/smb/krb5/gosmb2"
)

// A program that logs on by Kerberos with go-smb2 changes its import line alone. It needs a domain, so the
// example is compiled and not run.
func Example() {
	settings, err := config.Load("/etc/krb5.conf")
	if err != nil {
		log.Fatal(err)
	}
	nc, err := net.Dial("tcp", "files.example.org:445")
	if err != nil {
		log.Fatal(err)
	}
	d := smb2.Dialer{Initiator: &smb2.Krb5Initiator{
		Client:    client.NewWithPassword("alice", "EXAMPLE.ORG", "secret", settings),
		TargetSPN: "cifs/files.example.org",
	}}
	s, err := d.DialConn(context.Background(), nc, "files.example.org:445")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Logoff()
	names, err := s.ListSharenames()
	fmt.Println(names, err)
}
