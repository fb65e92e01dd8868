package rpc_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/internal/testcert"
	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"
)

// connectionTimeout is the default of the server option ConnectionTimeout.
const connectionTimeout = 2 * time.Minute

// handshakeStage is how far a client comes with TLS and its preface. It sends no more.
type handshakeStage struct {
	name string
	do   func(l *faultnet.Link, tc *tls.Conn)
}

// shake is the handshake. It fails when the connection ends.
func shake(_ *faultnet.Link, tc *tls.Conn) { tc.Handshake() }

// shakeAndSend is the handshake, and the first n bytes of preface and SETTINGS.
func shakeAndSend(n int) func(*faultnet.Link, *tls.Conn) {
	return func(l *faultnet.Link, tc *tls.Conn) {
		shake(l, tc)
		io.WriteString(tc, (http2.ClientPreface + "\x00\x00\x00\x04\x00\x00\x00\x00\x00")[:n])
		io.Copy(io.Discard, tc)
	}
}

var handshakeStages = []handshakeStage{
	{"nothing sent", func(*faultnet.Link, *tls.Conn) {}},
	{"within ClientHello", func(l *faultnet.Link, tc *tls.Conn) { l.ToServer.StallAfter(40); shake(l, tc) }},
	{"full socket for ServerHello", func(l *faultnet.Link, tc *tls.Conn) { l.ToClient.Stall(); shake(l, tc) }},
	{"before Finished", func(l *faultnet.Link, tc *tls.Conn) { l.ToClient.StallAfter(100); shake(l, tc) }},
	{"after the handshake", shakeAndSend(0)},
	{"within the preface", shakeAndSend(10)},
	{"within SETTINGS", shakeAndSend(len(http2.ClientPreface) + 4)},
}

// handshaking is a server, Tarn's or grpc-go's, whose client has come to a stage of the TLS handshake. client is the
// client's end of the connection.
func handshaking(t *testing.T, by implementation, do func(*faultnet.Link, *tls.Conn)) (c *couple, client net.Conn) {
	cert, _ := testcert.New(t)
	creds := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{cert}, NextProtos: []string{"h2"}})
	c = newCouple(t, faultnet.Memory, makers{ofTarn, by}, &testService{}, settings{creds: creds})
	nc, err := c.dial(t)(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	tc := tls.Client(nc, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	c.each(func(l *faultnet.Link) { go do(l, tc) })
	synctest.Wait()
	return c, nc
}

// TestStopWithinHandshake stops a server whose client has come no further than a part of the TLS handshake or of its
// first bytes. Stop of Tarn's server closes the connection at once, as the documentation of both says; grpc-go's waits
// for a handshake, ConnectionTimeout at most. So does GracefulStop of both, which Stop then ends.
func TestStopWithinHandshake(t *testing.T) {
	for _, s := range handshakeStages {
		for _, by := range []implementation{ofTarn, ofGRPC} {
			t.Run(fmt.Sprint(s.name, "/", by), func(t *testing.T) {
				bound := connectionTimeout + stopBound
				if by == ofTarn {
					bound = stopBound
				}
				t.Run("Stop", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c, nc := handshaking(t, by, s.do)
						begun := time.Now()
						c.server.Stop()
						if d := time.Since(begun); d > bound {
							t.Errorf("Stop took %v", d)
						}
						nc.Close()
					})
				})
				t.Run("GracefulStop", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c, nc := handshaking(t, by, s.do)
						begun := time.Now()
						c.server.GracefulStop()
						if d := time.Since(begun); d > connectionTimeout+5*time.Second {
							t.Errorf("GracefulStop took %v", d)
						}
						nc.Close()
					})
				})
				t.Run("both", func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c, nc := handshaking(t, by, s.do)
						graceful := make(chan struct{})
						go func() { defer close(graceful); c.server.GracefulStop() }()
						<-time.After(time.Second)
						begun := time.Now()
						c.server.Stop()
						<-graceful
						if d := time.Since(begun); d > bound {
							t.Errorf("both took %v", d)
						}
						nc.Close()
					})
				})
			})
		}
	}
}

// TestGracefulStopLetsAHandshakeEnd continues the handshake a second after GracefulStop: the client gets a GOAWAY
// without an error, which makes a client of gRPC repeat its calls elsewhere, rather than a broken handshake.
func TestGracefulStopLetsAHandshakeEnd(t *testing.T) {
	for _, by := range []implementation{ofTarn, ofGRPC} {
		t.Run(string(by), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				goAway := make(chan http2.ErrCode, 1)
				c, nc := handshaking(t, by, func(l *faultnet.Link, tc *tls.Conn) {
					defer close(goAway)
					l.ToServer.StallAfter(40)
					shake(l, tc)
					io.WriteString(tc, http2.ClientPreface)
					fr := http2.NewFramer(tc, tc)
					fr.WriteSettings()
					for {
						f, err := fr.ReadFrame()
						if err != nil {
							return
						}
						if g, ok := f.(*http2.GoAwayFrame); ok {
							goAway <- g.ErrCode
							return
						}
					}
				})
				graceful := make(chan struct{})
				go func() { defer close(graceful); c.server.GracefulStop() }()
				<-time.After(time.Second)
				c.each(func(l *faultnet.Link) { l.ToServer.Resume() })
				if code, ok := <-goAway; !ok || code != http2.ErrCodeNo {
					t.Errorf("GOAWAY: %v, %v", ok, code)
				}
				nc.Close()
				<-graceful
			})
		})
	}
}
