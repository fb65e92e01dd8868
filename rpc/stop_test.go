package rpc_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
)

// stopBound is how long Stop may take in fake time: what an aborted connection has to send its
// GOAWAY, and to close.
const stopBound = time.Second

// TestStopWithCalls stops a server while handlers wait, read half of what is sent, and send, with
// and without a full socket, also after ten seconds of GracefulStop. Tarn's ends in bound, and the
// codes are those of grpc-go's server.
func TestStopWithCalls(t *testing.T) {
	for _, kind := range []faultnet.Kind{faultnet.Memory, faultnet.MemoryTLS} {
		for _, f := range []fault{noFault, stall, toClient, toServer} {
			for _, gracefully := range []time.Duration{0, 10 * time.Second} {
				for _, m := range allMakers {
					t.Run(fmt.Sprint(kind, "/", f.name, "/", gracefully, "/", m), func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) {
							s := newStalledCalls()
							c := newCouple(t, kind, m, s.service(), settings{})
							s.faulted()
							s.start(t, c.calls)
							c.each(f.do)
							graceful := make(chan struct{})
							go func() {
								defer close(graceful)
								if gracefully > 0 {
									c.server.GracefulStop()
								}
							}()
							<-time.After(gracefully)
							select {
							case <-graceful:
								if gracefully > 0 {
									t.Error("GracefulStop has ended before the calls")
								}
							default:
							}
							s.faulted()
							stopped := make(chan time.Time, 1)
							go func() {
								c.server.Stop()
								stopped <- time.Now()
							}()
							<-time.After(time.Minute)
							c.each(func(l *faultnet.Link) { l.Break(faultnet.RST) })
							s.clients.Wait()
							s.servers.Wait()
							<-graceful
							if d := (<-stopped).Sub(s.since); m.server == ofTarn && d > stopBound {
								t.Errorf("Stop took %v", d)
							}
							for name, e := range s.calls {
								if e.code != codes.Unavailable {
									t.Errorf("client, %s: %v", name, e.code)
								}
							}
							for name, e := range s.handled {
								if e.code != codes.Canceled {
									t.Errorf("handler, %s: %v", name, e.code)
								}
							}
						})
					})
				}
			}
		}
	}
}

// TestStopWithinGreetingAndHeaders stops a server, at once or gracefully, whose client has come no
// further than a part of its first bytes.
func TestStopWithinGreetingAndHeaders(t *testing.T) {
	var greeting, block bytes.Buffer
	fr := http2.NewFramer(&greeting, nil)
	greeting.WriteString(http2.ClientPreface)
	fr.WriteSettings()
	afterSettings := greeting.Len()
	enc := hpack.NewEncoder(&block)
	for _, f := range []hpack.HeaderField{{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":authority", Value: "x"},
		{Name: ":path", Value: "/grpc.testing.TestService/UnaryCall"}, {Name: "content-type", Value: "application/grpc"}} {
		enc.WriteField(f)
	}
	fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()})
	for name, n := range map[string]int{
		"nothing sent": 0, "within the preface": 10, "within SETTINGS": afterSettings - 4, "after SETTINGS": afterSettings,
		"within HEADERS": afterSettings + 20, "before CONTINUATION": greeting.Len(),
	} {
		for _, kind := range []faultnet.Kind{faultnet.Memory, faultnet.Pipe} {
			for _, graceful := range []string{"Stop", "GracefulStop"} {
				t.Run(fmt.Sprint(name, "/", kind, "/", graceful), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						c := newCouple(t, kind, makers{ofTarn, ofTarn}, &testService{}, settings{})
						nc, err := c.dial(t)(context.Background(), "")
						if err != nil {
							t.Fatal(err)
						}
						go io.Copy(io.Discard, nc)
						go nc.Write(greeting.Bytes()[:n])
						synctest.Wait()
						begun := time.Now()
						bound := stopBound
						if graceful == "Stop" {
							c.server.Stop()
						} else {
							bound = 2 * time.Minute // for a connection that does not finish its greeting
							c.server.GracefulStop()
						}
						if d := time.Since(begun); d > bound {
							t.Errorf("it took %v", d)
						}
						nc.Close()
					})
				})
			}
		}
	}
}
