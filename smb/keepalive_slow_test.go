package smb_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/smb"
	"github.com/tarn-go/tarn/smb/internal/proto"
	"github.com/tarn-go/tarn/smb/internal/script"
)

// slowly sends long frames in pieces: the first at once, each other one when the client has sent an ECHO, which is then answered by
// nothing else.
type slowly struct {
	net.Conn
	echoes chan struct{}
}

const slowPiece = 200 << 10

func (s slowly) Write(p []byte) (n int, err error) {
	for {
		m, err := s.Conn.Write(p[n:min(n+slowPiece, len(p))])
		if n += m; err != nil || n == len(p) {
			return n, err
		}
		<-s.echoes
	}
}

// TestKeepAliveWhileAFrameArrives has a frame take longer than two periods: what has arrived of it shows that the server is there.
func TestKeepAliveWhileAFrameArrives(t *testing.T) {
	faultnet.NeedsTCP(t, "over pipes and sockets of its own")
	read := func(t *testing.T, kind string, period time.Duration, listen func() (client, server net.Conn)) {
		s := protections()[kind]
		echoes := make(chan struct{}, 100)
		reads := make(chan func() error, 100) // answered by another goroutine than the one that receives ECHO
		s.Hook = func(c *script.Conn, m *script.Message) bool {
			switch m.Command {
			case proto.CommandEcho:
				echoes <- struct{}{}
				return true
			case proto.CommandRead:
				of := *m
				of.Body = append([]byte(nil), m.Body...)
				reads <- func() error { return c.Obey(&of) }
				return true
			}
			return false
		}
		d := smb.Dialer{
			Initiator: fixedKey{}, Pool: newPool(t), NoReconnect: true, Limits: smb.Limits{KeepAlive: period},
			DialFunc: func(context.Context, string, string) (net.Conn, error) {
				client, server := listen()
				go func() {
					s.Serve(slowly{server, echoes})
					close(echoes)
					close(reads)
				}()
				go func() {
					for answer := range reads {
						answer()
					}
				}()
				return client, nil
			},
		}
		session, err := d.Dial(t.Context(), "scripted")
		must(t, err)
		defer session.Close()
		share, err := session.Mount(t.Context(), "share")
		must(t, err)
		f, err := share.Open("file")
		must(t, err)
		checkRead(t, f, 1000_000, 5)
		checkRead(t, f, 1000, 5) // the connection is in order
	}
	var sockets sync.WaitGroup // their subtests run at once, because each waits most of the time
	defer sockets.Wait()
	for _, kind := range kinds() {
		t.Run("pipe/"+kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { read(t, kind, smb.DefaultKeepAlive, net.Pipe) })
		})
		// On a socket the receiver is not woken before much of the frame has arrived, unless it is interrupted.
		sockets.Go(func() {
			t.Run("tcp/"+kind, func(t *testing.T) {
				read(t, kind, 400*time.Millisecond, func() (client, server net.Conn) { return faultnet.Joined(t) })
			})
		})
	}
}
