package smb_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/tarntest"
)

// faultnetDialer dials a scripted server through faultnet, and has the faults made of each link.
func faultnetDialer(t *testing.T, protection string, kind faultnet.Kind, faults func(*faultnet.Link)) smb.Dialer {
	t.Helper()
	l := faultnet.Listen(t, kind)
	l.Faults(faults)
	s := protections()[protection]
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go s.Serve(nc)
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return smb.Dialer{Initiator: fixedKey{}, Pool: tarntest.NewPool(t), NoReconnect: true, DialFunc: l.Dial, Limits: smb.Limits{KeepAlive: -1}}
}

// eachFaultnet runs f for each kind of connection and three ways to protect what is on it.
func eachFaultnet(t *testing.T, f func(t *testing.T, protection string, kind faultnet.Kind)) {
	for _, kind := range faultnet.Kinds {
		for _, protection := range []string{"plain", "signed/GMAC", "encrypted/GCM"} {
			t.Run(kind.String()+"/"+protection, func(t *testing.T) { f(t, protection, kind) })
		}
	}
}

// lengthOf is how many bytes of a conversation pass in both directions.
func lengthOf(t *testing.T, protection string, kind faultnet.Kind) (toServer, toClient int64) {
	t.Helper()
	var link *faultnet.Link
	d := faultnetDialer(t, protection, kind, func(l *faultnet.Link) { link = l })
	if _, err := converse(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	return link.ToServer.Passed(), link.ToClient.Passed()
}

// places are numbers of bytes at which a conversation of a length is disturbed: about 12, with TARN_LONG=1 300.
func places(length int64) (at []int64) {
	n := int64(12)
	if os.Getenv("TARN_LONG") != "" {
		n = 300
	}
	for p := int64(0); p < length-64; p += length/n + 1 { // handshakes of TLS differ by a few bytes
		at = append(at, p)
	}
	return at
}

// TestBreaks ends the connection by FIN and by RST in the middle of a conversation, on every kind of connection:
// always ErrConnLost, never a hang, and every buffer is freed.
func TestBreaks(t *testing.T) {
	eachFaultnet(t, func(t *testing.T, protection string, kind faultnet.Kind) {
		out, in := lengthOf(t, protection, kind)
		for _, how := range []faultnet.Ending{faultnet.FIN, faultnet.RST} {
			cut := func(at int64, flow func(*faultnet.Link) *faultnet.Flow) {
				d := faultnetDialer(t, protection, kind, func(l *faultnet.Link) { flow(l).CutAfter(at, how) })
				if _, err := converse(t.Context(), d); !errors.Is(err, smb.ErrConnLost) {
					t.Errorf("cut after %d bytes: %v", at, err)
				}
			}
			for _, at := range places(out) {
				cut(at, func(l *faultnet.Link) *faultnet.Flow { return l.ToServer })
			}
			for _, at := range places(in) {
				cut(at, func(l *faultnet.Link) *faultnet.Flow { return l.ToClient })
			}
		}
	})
}

// TestStalls stops the network in the middle of a conversation and then cancels its context: it ends with that, and
// every buffer is freed.
func TestStalls(t *testing.T) {
	eachFaultnet(t, func(t *testing.T, protection string, kind faultnet.Kind) {
		out, in := lengthOf(t, protection, kind)
		stall := func(at int64, flow func(*faultnet.Link) *faultnet.Flow) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			d := faultnetDialer(t, protection, kind, func(l *faultnet.Link) {
				stalled := flow(l).StallAfter(at)
				go func() { <-stalled; cancel() }()
			})
			if _, err := converse(ctx, d); !errors.Is(err, context.Canceled) && !errors.Is(err, smb.ErrConnLost) {
				t.Errorf("stalled after %d bytes: %v", at, err)
			}
		}
		for _, at := range places(out) {
			stall(at, func(l *faultnet.Link) *faultnet.Flow { return l.ToServer })
		}
		for _, at := range places(in) {
			stall(at, func(l *faultnet.Link) *faultnet.Flow { return l.ToClient })
		}
	})
}

// TestTrickles has the network bring one byte at a time, or pieces of random length with goroutines run in random
// order between them: the conversation is what it is without.
func TestTrickles(t *testing.T) {
	eachFaultnet(t, func(t *testing.T, protection string, kind faultnet.Kind) {
		for name, faults := range map[string]func(*faultnet.Link){
			"bytes":  func(l *faultnet.Link) { l.ToServer.Chunk(1); l.ToClient.Chunk(1) },
			"jitter": func(l *faultnet.Link) { l.ToServer.Jitter(1); l.ToClient.Jitter(2) },
		} {
			if n, err := converse(t.Context(), faultnetDialer(t, protection, kind, faults)); n != 300 || err != nil {
				t.Errorf("%s: %d bytes written, %v", name, n, err)
			}
		}
	})
}
