package smb_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/tarn-go/tarn/smb"
)

// TestCancelWhilePlacing cancels a read while its data is being received into the caller's slice: the slice
// is the caller's again at once, nothing is written to it afterwards, and the connection continues with the
// next reply.
func TestCancelWhilePlacing(t *testing.T) {
	for _, kind := range []string{"plain", "signed/GMAC", "signed/HMAC", "encrypted/GCM"} {
		for _, over := range []string{"pipe", "tcp"} {
			for _, sent := range []int{90, 5000, 300_000} {
				t.Run(kind+"/"+over, func(t *testing.T) {
					const length = 500_000
					s := protections()[kind]
					half, rest := make(chan struct{}), make(chan struct{})
					s.Split = func(frame []byte) (int, <-chan struct{}) {
						if len(frame) < length || half == nil {
							return 0, nil
						}
						close(half)
						half = nil
						return sent, rest
					}
					d := smb.Dialer{DialFunc: through(t, s.Dial)}
					if over == "tcp" {
						d.DialFunc = through(t, s.DialTCP)
					}
					f, err := scripted(t, s, d)
					must(t, err)
					p := make([]byte, length)
					ctx, cancel := context.WithCancel(t.Context())
					go func(half chan struct{}) {
						<-half
						time.AfterFunc(20*time.Millisecond, cancel) // part of it has been sent
					}(half)
					if n, err := f.WithContext(ctx).ReadAt(p, 0); n != 0 || !errors.Is(err, context.Canceled) {
						t.Fatal(n, err)
					}
					clear(p)
					close(rest)
					checkRead(t, f, 1000, 77)
					checkRead(t, f, length, 78)
					for i, b := range p {
						if b != 0 {
							t.Fatalf("byte %d was written after ReadAt had returned", i)
						}
					}
				})
			}
		}
	}
}
