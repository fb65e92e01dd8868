package smb_test

import (
	"context"
	"errors"
	"testing"

	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/tarntest"
)

// A call whose context has ended fails and sends nothing, even if the server would answer at once.
func TestEndedContextSendsNothing(t *testing.T) {
	for _, kind := range kinds() {
		t.Run(kind, func(t *testing.T) {
			s := protections()[kind]
			var disk memoryServer
			disk.serve(s)
			d := smb.Dialer{Initiator: fixedKey{}, DialFunc: through(t, s.Dial), Pool: tarntest.NewPool(t)}
			sess, err := d.Dial(t.Context(), "scripted")
			must(t, err)
			defer sess.Close()
			share, err := sess.Mount(t.Context(), "share")
			must(t, err)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			for range 300 {
				if _, err := share.WithContext(ended).Stat("x"); !errors.Is(err, context.Canceled) {
					t.Fatalf("Stat with an ended context: %v", err)
				}
			}
		})
	}
}
