package h2

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/testcert"
	"github.com/tarn-go/tarn/tarntest"
)

// cutting is a connection that leaves out the end of one write, which fails as at its deadline.
type cutting struct {
	net.Conn
	armed   atomic.Bool   // the next write is cut
	missing int           // bytes that are left out; more than a write has: all
	takes   time.Duration // how long that write takes
}

func (c *cutting) Write(p []byte) (int, error) {
	if !c.armed.CompareAndSwap(true, false) {
		return c.Conn.Write(p)
	}
	n := 0
	if c.missing < len(p) {
		n, _ = c.Conn.Write(p[:len(p)-c.missing])
	}
	<-time.After(c.takes)
	return n, os.ErrDeadlineExceeded
}

// TestNoAlertAfterACutRecord: when a record of TLS could not be sent, or not all of it, nothing follows. crypto/tls's Close would send an
// alert, whose number is that of the record after the missing one, or whose bytes the peer would take for the rest of it: it would end
// with "bad record MAC" and not with the end of the stream.
func TestNoAlertAfterACutRecord(t *testing.T) {
	cert, _ := testcert.New(t)
	for name, c := range map[string]*cutting{
		"nothing leaves, late":  {missing: 1 << 20, takes: abortTimeout},
		"nothing leaves, early": {missing: 1 << 20},
		"part leaves, late":     {missing: 10, takes: abortTimeout},
		"part leaves, early":    {missing: 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := net.Pipe()
				c.Conn = b
				s, err := NewServer(tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}}), new(neverStarted),
					Config{Pool: tarntest.NewPool(t)})
				if err != nil {
					t.Fatal(err)
				}
				run := make(chan struct{})
				go func() { defer close(run); s.Run() }()
				peer := tls.Client(a, &tls.Config{InsecureSkipVerify: true})
				go func() {
					io.WriteString(peer, Preface)
					newRaw(t, peer).fr.WriteSettings()
				}()
				end := make(chan error, 1)
				go func() {
					_, err := io.Copy(io.Discard, peer)
					end <- err
				}()
				synctest.Wait()
				c.armed.Store(true)
				s.Close()
				if err := <-end; err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
					t.Errorf("the peer's reading ended with %v", err)
				}
				a.Close()
				<-run
			})
		})
	}
}
