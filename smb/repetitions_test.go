package smb_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// TestRepetitions has a server end the connection whenever a request arrives: the request is sent again four times, for each call
// anew.
func TestRepetitions(t *testing.T) {
	const repetitions = 4
	eachKind(t, func(t *testing.T, s *script.Server) {
		var losses, received atomic.Int32
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			if m.Command != proto.CommandCreate || script.NameOf(m) != "other" {
				return false
			}
			received.Add(1)
			if losses.Add(-1) < 0 {
				return false
			}
			c.Close()
			return true
		}
		f, err := scripted(t, s, smb.Dialer{})
		must(t, err)
		for _, c := range []struct {
			losses, received int32
			want             error
		}{
			{repetitions, repetitions + 1, nil},
			{repetitions, repetitions + 1, nil},
			{repetitions + 1, repetitions + 1, smb.ErrConnLost},
			{0, 1, nil},
		} {
			losses.Store(c.losses)
			received.Store(0)
			_, err := f.Share().Stat("other")
			if !errors.Is(err, c.want) || received.Load() != c.received {
				t.Errorf("%d losses: the request was received %d times, %v", c.losses, received.Load(), err)
			}
		}
	})
}

// TestRedialPauses loses a connection to a server that then refuses connections, with fake time: the pauses between the attempts
// double up to one second, and no attempt is begun after Limits.RedialTimeout.
func TestRedialPauses(t *testing.T) {
	faultnet.NeedsFakeTime(t)
	for timeout, want := range map[time.Duration][]time.Duration{
		0:                      {20, 40, 80, 160, 320, 640, 1000, 1000, 1000}, // DefaultRedialTimeout
		100 * time.Millisecond: {20, 40},
		-1:                     nil,
	} {
		t.Run(timeout.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script.Server{}
				var last net.Conn
				var attempts []time.Time
				f, err := scripted(t, s, smb.Dialer{
					Limits: smb.Limits{RedialTimeout: timeout},
					DialFunc: func(ctx context.Context, n, a string) (nc net.Conn, err error) {
						if last != nil {
							attempts = append(attempts, time.Now())
							return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
						}
						last, err = through(t, s.Dial)(ctx, n, a)
						return last, err
					},
				})
				must(t, err)
				last.Close()
				if _, err := f.Share().Stat("file"); !errors.Is(err, smb.ErrConnLost) {
					t.Error(err)
				}
				var pauses []time.Duration
				for i := 1; i < len(attempts); i++ {
					pauses = append(pauses, attempts[i].Sub(attempts[i-1])/time.Millisecond)
				}
				if !slices.Equal(pauses, want) {
					t.Errorf("pauses in milliseconds: %d, want %d", pauses, want)
				}
			})
		})
	}
}
