package h2http_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/h2http"
)

// TestWriteByteTimeout has a client send frames and read nothing, or a byte now and then: only the former's connection ends.
func TestWriteByteTimeout(t *testing.T) {
	for name, reads := range map[string]bool{"nothing": false, "a byte at a time": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const timeout = 10 * time.Second
				l := pipeListener{make(chan net.Conn), make(chan struct{})}
				srv := &http.Server{Handler: http.NotFoundHandler(), Protocols: new(http.Protocols), HTTP2: &http.HTTP2Config{WriteByteTimeout: timeout}}
				srv.Protocols.SetUnencryptedHTTP2(true)
				ended := make(chan struct{})
				go func() { defer close(ended); h2http.Serve(l, srv) }()
				client, server := net.Pipe()
				l.conns <- server
				io.WriteString(client, http2.ClientPreface)
				fr := http2.NewFramer(client, nil)
				fr.WriteSettings()
				begun := time.Now()
				var err error
				for err == nil && time.Since(begun) < 3*timeout { // the server has some 30 bytes to send
					<-time.After(timeout / 2)
					if reads {
						_, err = client.Read(make([]byte, 1))
					} else {
						err = fr.WriteWindowUpdate(0, 1)
					}
				}
				if d := time.Since(begun); reads && err != nil || !reads && (err == nil || d > 2*timeout) {
					t.Errorf("after %v: %v", d, err)
				}
				client.Close()
				srv.Shutdown(context.Background())
				<-ended
				synctest.Wait()
			})
		})
	}
}

// TestWriteByteTimeoutOfClients is the same for a client.
func TestWriteByteTimeoutOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const timeout = 10 * time.Second
		client, server := net.Pipe()
		defer server.Close()
		tr := &h2http.Transport{
			DialContext: func(context.Context, string, string) (net.Conn, error) { return client, nil },
			HTTP2:       &http.HTTP2Config{WriteByteTimeout: timeout},
		}
		req, _ := http.NewRequest("GET", "http://origin.example", nil)
		begun := time.Now()
		if _, err := tr.RoundTrip(req); err == nil || time.Since(begun) > 2*timeout {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
	})
}
