package krb5_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/krb5"
)

// Log on with the tickets in kinit's credential cache.
func Example() {
	i, err := krb5.New(krb5.Config{CCache: os.Getenv("KRB5CCNAME")})
	if err != nil {
		log.Fatal(err)
	}
	defer i.Close()
	s, err := (&smb.Dialer{Initiator: i}).Dial(context.Background(), "files.example.org")
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	shares, err := s.Shares(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, share := range shares {
		fmt.Println(share.Name)
	}
}
