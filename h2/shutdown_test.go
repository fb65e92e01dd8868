package h2

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
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
// with them it keeps the connection instead, and the next request on it fails. A client that stays is waited for a
// second: this connection has no CloseWrite, as those of grpc-go's TLS credentials, so it sees no end. A client that sends nothing for a second after the PING is not waited for.
func TestShutdownWithStreams(t *testing.T) {
	const ms = time.Millisecond
	for name, x := range map[string]struct {
		took   takingTime // a request comes every half second
		closes bool       // the client closes the connection at the last stream's end
		late   bool       // the last request comes just before the answer to the PING
		silent bool       // the client does not answer the PING
		want   []string
	}{
		"client closes":    {takingTime{100 * ms}, true, false, false, []string{"0s GOAWAY", "100ms end 1", "100ms EOF"}},
		"client stays":     {takingTime{100 * ms}, false, false, false, []string{"0s GOAWAY", "100ms end 1", "1.1s PING", "1.1s GOAWAY 1", "2.1s EOF"}},
		"another request":  {takingTime{100 * ms, 2000 * ms}, false, false, false, []string{"0s GOAWAY", "100ms end 1", "2.5s end 3", "3.5s PING", "3.5s GOAWAY 3", "4.5s EOF"}},
		"many requests":    {takingTime{1 * ms, 1 * ms, 1 * ms, 700 * ms}, false, false, false, []string{"0s GOAWAY", "1ms end 1", "501ms end 3", "1.001s end 5", "2.2s end 7", "3.2s PING", "3.2s GOAWAY 7", "4.2s EOF"}},
		"end just before":  {takingTime{4900 * ms}, false, false, false, []string{"0s GOAWAY", "4.9s end 1", "5s GOAWAY 1", "6s EOF"}},
		"late request":     {takingTime{100 * ms, 100 * ms}, false, true, false, []string{"0s GOAWAY", "100ms end 1", "1.1s PING", "1.1s GOAWAY 3", "1.2s end 3", "2.2s EOF"}},
		"silent client":    {takingTime{100 * ms}, false, false, true, []string{"0s GOAWAY", "100ms end 1", "1.1s PING", "1.85s GOAWAY 1", "2.1s EOF"}},
		"silent, late end": {takingTime{4500 * ms}, false, false, true, []string{"0s GOAWAY", "4.5s end 1", "5s GOAWAY 1", "6s EOF"}},
		"end after GOAWAY": {takingTime{6000 * ms}, false, false, false, []string{"0s GOAWAY", "5s GOAWAY 1", "6s end 1", "7s EOF"}},
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
							if !x.silent {
								r.fr.WritePing(true, f.Data)
							}
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

// TestShutdownLetsASlowClientRead: a client that reads slowly has the whole response, whether it sends WINDOW_UPDATE meanwhile or not,
// and a client that takes nothing is not waited for without bound.
func TestShutdownLetsASlowClientRead(t *testing.T) {
	const (
		size  = 1 << 20
		piece = 8 << 10
	)
	type client struct {
		pipe    func() (net.Conn, net.Conn)
		updates int           // a WINDOW_UPDATE after so many pieces; 0: none
		pause   time.Duration // between pieces
		pieces  int           // after which it is silent
		whole   bool          // it gets all
		within  time.Duration
	}
	const ms = time.Millisecond
	for name, x := range map[string]client{
		"without WINDOW_UPDATE": {net.Pipe, 0, 100 * ms, math.MaxInt, true, 15 * time.Second},
		"with WINDOW_UPDATE":    {bufferedPipe, 4, 100 * ms, math.MaxInt, true, 15 * time.Second},
		"that answers late":     {bufferedPipe, 9, 100 * ms, math.MaxInt, true, 15 * time.Second},
		"that takes nothing":    {net.Pipe, 0, 100 * ms, 8, false, 30 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := x.pipe()
				pool := tarntest.NewPool(t)
				toServer(t, a, b, answering{pool, size}, Config{Pool: pool}, func(t *testing.T, _ *Maker, s *Conn, r *raw) {
					io.WriteString(a, Preface)
					r.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 4 * size})
					r.fr.WriteWindowUpdate(0, 4*size)
					r.request(1, End)
					synctest.Wait()
					s.Shutdown("")
					begun := time.Now()
					// What it has read is parsed, and PINGs are answered, at its pace.
					in, out := io.Pipe()
					go func() {
						defer out.Close()
						for i := range x.pieces {
							n, err := io.CopyN(out, a, piece)
							if err != nil || n < piece {
								return
							}
							if x.updates > 0 && i%x.updates == 0 {
								r.fr.WriteWindowUpdate(0, piece)
							}
							<-time.After(x.pause)
						}
						<-s.Done()
					}()
					fr := http2.NewFramer(a, in)
					fr.SetMaxReadFrameSize(1 << 20)
					got, ended := 0, false
					for {
						f, err := fr.ReadFrame()
						if err != nil {
							break
						}
						switch f := f.(type) {
						case *http2.DataFrame:
							got += len(f.Data())
						case *http2.PingFrame:
							go http2.NewFramer(a, nil).WritePing(true, f.Data)
						}
						ended = ended || f.Header().Flags.Has(http2.FlagHeadersEndStream) && f.Header().Type == http2.FrameHeaders
					}
					if whole := got == size && ended; whole != x.whole {
						t.Errorf("%d bytes have come, and the end: %v", got, ended)
					}
					<-s.Done()
					if took := time.Since(begun); took > x.within {
						t.Errorf("after %v", took)
					}
				})
			})
		})
	}
}
