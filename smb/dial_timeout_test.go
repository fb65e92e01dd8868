package smb_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
)

// TestDialTimeout loses a connection to a server that then does not answer, with fake time: an attempt to replace it reaches
// Limits.DialTimeout, while connecting or while logging in. Another is made, and after Limits.RedialTimeout the operation fails
// with ErrConnLost.
func TestDialTimeout(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	connecting := func(ctx context.Context) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	loggingIn := func(context.Context) (net.Conn, error) {
		silent, nc := net.Pipe()
		go func() {
			for b := make([]byte, 1000); ; {
				if _, err := silent.Read(b); err != nil {
					return
				}
			}
		}()
		return nc, nil
	}
	for name, stalled := range map[string]func(context.Context) (net.Conn, error){"connecting": connecting, "logging in": loggingIn} {
		for _, kind := range kinds() {
			for _, c := range []struct {
				name     string
				stalls   int
				attempts int
				want     error
			}{{"once", 1, 2, nil}, {"always", 1000, 6, smb.ErrConnLost}} {
				t.Run(name+"/"+kind+"/"+c.name, func(t *testing.T) {
					s := protections()[kind]
					synctest.Test(t, func(t *testing.T) {
						var last net.Conn
						attempts := 0
						d := smb.Dialer{DialFunc: func(ctx context.Context, n, a string) (net.Conn, error) {
							if last != nil {
								if attempts++; attempts <= c.stalls {
									return stalled(ctx)
								}
							}
							nc, err := through(t, s.Dial)(ctx, n, a)
							last = nc
							return nc, err
						}}
						d.Limits.DialTimeout = time.Second
						d.Limits.RedialTimeout = 6 * time.Second
						f, err := scripted(t, s, d)
						must(t, err)
						last.Close()
						_, err = f.Share().Stat("file")
						if !errors.Is(err, c.want) {
							t.Errorf("Stat: %v", err)
						}
						if c.want != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
							t.Errorf("the reason is not in the error: %v", err)
						}
						if attempts != c.attempts {
							t.Errorf("%d attempts, want %d", attempts, c.attempts)
						}
					})
				})
			}
		}
	}
}

// TestDialTimeoutOfContext ends the caller's context during an attempt: its error is the context's.
func TestDialTimeoutOfContext(t *testing.T) {
	d := smb.Dialer{Initiator: fixedKey{}, Pool: newPool(t)}
	ctx, cancel := context.WithCancel(t.Context())
	d.DialFunc = func(ctx context.Context, _, _ string) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if _, err := d.Dial(ctx, "scripted"); !errors.Is(err, context.Canceled) || errors.Is(err, smb.ErrConnLost) {
		t.Error(err)
	}
}
