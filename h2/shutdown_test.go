package h2

import (
	"context"
	"fmt"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// takingTime is a server's handler that answers the i-th request after its i-th duration.
type takingTime []time.Duration

func (h takingTime) OnHeaders(s *Stream, _ *Header, _ Ending) {
	go func() {
		<-time.After(h[s.ID()/2])
		s.Write(context.Background(), &Out{Block: testResponse, TrailerBlock: testTrailer, Release: true})
	}()
}
func (takingTime) OnData(_ *Stream, b tarn.Buffer, _ Ending) { b.Free() }
func (takingTime) OnReset(*Stream, error)                    {}

// TestShutdownWithStreams: a server that shuts down while streams are open sends nothing that its client must answer
// before a second has passed after the last stream's end. Apache's mod_proxy_http2 (2.4.71, nghttp2) closes the
// connection when it has read the GOAWAY and the last response and has nothing left to send. If a PING arrives together
// with them it keeps the connection instead, and the next request on it fails. A client that stays is waited for, a
// second once it has answered the PING and so has read all that was sent, or else five: this connection has no CloseWrite,
// as those of grpc-go's TLS credentials, so it sees no end.
func TestShutdownWithStreams(t *testing.T) {
	const ms = time.Millisecond
	for name, x := range map[string]struct {
		took   takingTime // a request comes every half second
		closes bool       // the client closes the connection at the last stream's end
		late   bool       // the last request comes just before the answer to the PING
		want   []string
	}{
		"client closes":    {takingTime{100 * ms}, true, false, []string{"0s GOAWAY", "100ms end 1", "100ms EOF"}},
		"client stays":     {takingTime{100 * ms}, false, false, []string{"0s GOAWAY", "100ms end 1", "1.1s PING", "1.1s GOAWAY 1", "2.1s EOF"}},
		"another request":  {takingTime{100 * ms, 2000 * ms}, false, false, []string{"0s GOAWAY", "100ms end 1", "2.5s end 3", "3.5s PING", "3.5s GOAWAY 3", "4.5s EOF"}},
		"many requests":    {takingTime{1 * ms, 1 * ms, 1 * ms, 700 * ms}, false, false, []string{"0s GOAWAY", "1ms end 1", "501ms end 3", "1.001s end 5", "2.2s end 7", "3.2s PING", "3.2s GOAWAY 7", "4.2s EOF"}},
		"end just before":  {takingTime{4900 * ms}, false, false, []string{"0s GOAWAY", "4.9s end 1", "5s GOAWAY 1", "10s EOF"}},
		"late request":     {takingTime{100 * ms, 100 * ms}, false, true, []string{"0s GOAWAY", "100ms end 1", "1.1s PING", "1.1s GOAWAY 3", "1.2s end 3", "6.2s EOF"}},
		"end after GOAWAY": {takingTime{6000 * ms}, false, false, []string{"0s GOAWAY", "5s GOAWAY 1", "6s end 1", "11s EOF"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := bufferedPipe()
				toServer(t, a, b, x.took, Config{Pool: tarntest.NewPool(t)}, func(t *testing.T, _ *Maker, s *Conn, r *raw) {
					begun, sent := time.Now(), make(chan struct{})
					go func() {
						defer close(sent)
						io.WriteString(a, Preface)
						r.fr.WriteSettings()
						for i := range x.took {
							if x.late && i == len(x.took)-1 {
								break
							}
							r.request(uint32(2*i+1), End)
							if i == 0 {
								synctest.Wait()
								s.Shutdown("")
							}
							<-time.After(500 * ms)
						}
					}()
					var got []string
					note := func(what string) { got = append(got, fmt.Sprint(time.Since(begun), what)) }
					for ends := 0; ; {
						f, err := r.fr.ReadFrame()
						if err == io.EOF {
							note(" EOF")
						}
						if err != nil {
							break
						}
						switch f := f.(type) {
						case *http2.GoAwayFrame:
							if f.LastStreamID == maxStreamID {
								note(" GOAWAY")
								continue
							}
							note(fmt.Sprint(" GOAWAY ", f.LastStreamID))
						case *http2.PingFrame:
							note(" PING")
							if x.late {
								<-sent
								r.request(uint32(2*len(x.took)-1), End)
							}
							r.fr.WritePing(true, f.Data)
						case *http2.HeadersFrame:
							if !f.StreamEnded() {
								continue
							}
							note(fmt.Sprint(" end ", f.StreamID))
							if ends++; ends == len(x.took) && x.closes {
								a.Close()
							}
						}
					}
					if !slices.Equal(got, x.want) {
						t.Errorf("%q, not %q", got, x.want)
					}
					a.Close()
					<-s.Done()
					<-sent
				})
			})
		})
	}
}
