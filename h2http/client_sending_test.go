package h2http_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn/h2http"
)

// watched is a request's body that a test writes to and that notes when it is closed.
func watched() (*closeRecorder, *io.PipeWriter) {
	pr, pw := io.Pipe()
	return &closeRecorder{pr, make(chan struct{})}, pw
}

// TestRefusedBodyIsNotSent has the final response say that the body is not wanted.
func TestRefusedBodyIsNotSent(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		data := make(chan struct{}, 1)
		url := rawOrigin(t, s.tls, func(_ int, _ io.ReadWriteCloser, fr *http2.Framer) {
			sc := &script{request: func(s *script, id uint32) { s.answer(id, "413") }}
			sc.end = func(*script, uint32) { data <- struct{}{} }
			sc.serve(fr)
		})
		setup := new(clientSetup)
		setup.tr.ExpectContinueTimeout = time.Hour
		for _, expect := range []string{"", "100-continue"} {
			body, _ := watched()
			req, _ := http.NewRequest("POST", url, body)
			if expect != "" {
				req.Header.Set("Expect", expect)
			}
			resp, err := s.make(t, setup).RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			<-body.closed
			resp.Body.Close()
			if resp.StatusCode != 413 {
				t.Errorf("status %d", resp.StatusCode)
			}
		}
		select {
		case <-data:
			t.Error("the request was ended in order")
		default:
		}
	})
}

// TestLastPieceEnds sends a body whose Reader returns io.EOF after its last bytes, as a file and a received body do. If
// its length is declared, the frame with the last bytes ends the stream, as with net/http: Tomcat 10.1 over TLS takes an
// empty DATA frame after a body of 64 KiB for a frame of another stream.
func TestLastPieceEnds(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		for _, n := range []int{1, 65535, 65536, 200_000} {
			origin := stacks[slices.IndexFunc(stacks, func(s stack) bool { return s.own })].start(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.WriteString(w, text(n))
				w.(http.Flusher).Flush() // before the end
			}))
			rt := &h2http.Transport{DialContext: dialer(t), TLSClientConfig: origin.client.Transport.(*http.Transport).TLSClientConfig, Config: h2http.Config{Pool: drainedPool(t)}}
			t.Cleanup(rt.CloseIdleConnections)
			received, err := (&http.Client{Transport: rt}).Get(origin.url)
			if err != nil {
				t.Fatal(err)
			}
			for _, body := range []io.Reader{struct{ io.Reader }{strings.NewReader(text(n))}, received.Body} {
				got, last := 0, 0
				url, _ := scripted(t, s.tls, func(int) *script {
					sc := &script{end: ok, data: func(f *http2.DataFrame) { got, last = got+len(f.Data()), len(f.Data()) }}
					sc.settings = []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 1 << 20}}
					sc.request = func(sc *script, id uint32) { sc.do(func() { sc.fr.WriteWindowUpdate(0, 1<<20) }) }
					return sc
				})
				req, _ := http.NewRequest("POST", url, body)
				req.ContentLength = int64(n)
				resp, err := s.make(t, new(clientSetup)).RoundTrip(req)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if got != n || last == 0 {
					t.Errorf("%T: %d of %d bytes, and %d in the last frame", body, got, n, last)
				}
			}
		}
	})
}

// TestContextEndsSending has a response that is complete before its request. net/http's
// HTTP/2 waits for the body's reader.
func TestContextEndsSending(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		url, _ := scripted(t, s.tls, func(int) *script { return &script{request: ok} })
		body, _ := watched()
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "POST", url, body)
		resp, err := s.make(t, new(clientSetup)).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		cancel()
		<-body.closed
	})
}

// TestCloseEndsSending closes a response that has been read to its end.
func TestCloseEndsSending(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		url, _ := scripted(t, s.tls, func(int) *script {
			return &script{request: func(s *script, id uint32) {
				s.do(func() {
					// :status 200 of the static table
					s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte{0x88}, EndHeaders: true})
					s.fr.WriteData(id, true, []byte("hello"))
				})
			}}
		})
		body, _ := watched()
		req, _ := http.NewRequest("POST", url, body)
		resp, err := s.make(t, new(clientSetup)).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "hello" || err != nil {
			t.Errorf("%q, %v", b, err)
		}
		resp.Body.Close()
		<-body.closed
	})
}

// TestContextEndsReadingAShortBody sends a body that waits although it has a GetBody.
func TestContextEndsReadingAShortBody(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		url, _ := scripted(t, s.tls, func(int) *script { return &script{end: ok} })
		body, _ := watched()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		defer cancel()
		req, _ := http.NewRequestWithContext(ctx, "POST", url, body)
		req.ContentLength = 5
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader("hello")), nil }
		if _, err := s.make(t, new(clientSetup)).RoundTrip(req); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		<-body.closed
	})
}

// answering starts an origin that answers each request with a header and content,
// and calls seen when the client has taken them.
func answering(t *testing.T, overTLS bool, seen func()) string {
	return rawOrigin(t, overTLS, func(_ int, _ io.ReadWriteCloser, fr *http2.Framer) {
		fr.WriteSettings()
		for {
			f, err := fr.ReadFrame()
			if err != nil {
				return
			}
			switch f := f.(type) {
			case *http2.HeadersFrame:
				// :status 200 of the static table
				fr.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: []byte{0x88}, EndHeaders: true})
				fr.WriteData(f.StreamID, true, []byte("hello"))
				fr.WritePing(false, [8]byte{1})
			case *http2.PingFrame:
				if f.IsAck() && f.Data == [8]byte{1} {
					seen()
				} else if !f.IsAck() {
					fr.WritePing(true, f.Data)
				}
			}
		}
	})
}

// TestContextEndsWhatIsAnswered has the context end when content has come and RoundTrip
// has not returned: no caller closes that response.
func TestContextEndsWhatIsAnswered(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		seen := make(chan struct{}, 1)
		url := answering(t, s.tls, func() { seen <- struct{}{} })
		rt := s.make(t, new(clientSetup))
		for range 10 { // RoundTrip may find either first
			ctx, cancel := context.WithCancel(context.Background())
			traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
				WroteRequest: func(httptrace.WroteRequestInfo) { <-seen; cancel() },
			})
			req, _ := http.NewRequestWithContext(traced, "GET", url, nil)
			resp, err := rt.RoundTrip(req)
			if err == nil {
				resp.Body.Close()
			} else if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
		}
	})
}

// TestContentOfHEADIsDropped has a server answer HEAD with content.
func TestContentOfHEADIsDropped(t *testing.T) {
	eachOwn(t, func(t *testing.T, s clientStack) {
		seen := make(chan struct{}, 1)
		url := answering(t, s.tls, func() { seen <- struct{}{} })
		req, _ := http.NewRequest("HEAD", url, nil)
		mustRoundTrip(t, s.make(t, new(clientSetup)), req)
		<-seen
	})
}

// TestResponseBeforeShortBody has the response come while the server's window keeps a short body back, which has been read
// already: the caller gets it at once, and the body is sent when there is room unless the response says that it is not wanted.
func TestResponseBeforeShortBody(t *testing.T) {
	const content = "longer than the window"
	eachClient(t, func(t *testing.T, s clientStack) {
		ended := make(chan uint32, 4)
		reset := make(chan uint32, 4)
		url := rawOrigin(t, s.tls, func(_ int, _ io.ReadWriteCloser, fr *http2.Framer) {
			conn := &script{settings: []http2.Setting{{ID: http2.SettingInitialWindowSize, Val: 10}}}
			conn.request = func(s *script, id uint32) {
				if id == 3 {
					s.answer(id, "413")
					return
				}
				s.answer(id, "200")
				s.do(func() { fr.WriteWindowUpdate(id, 1<<16) })
			}
			conn.end = func(_ *script, id uint32) { ended <- id }
			conn.reset = func(id uint32) { reset <- id }
			conn.serve(fr)
		})
		rt := s.make(t, new(clientSetup))
		send := func(method, body string) int {
			t.Helper()
			req, _ := http.NewRequest(method, url, strings.NewReader(body))
			resp, err := rt.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			return resp.StatusCode
		}
		send("GET", "") // the client has the server's settings then
		if id := <-ended; id != 1 {
			t.Fatalf("stream %d ended", id)
		}
		if status := send("POST", content); status != 413 {
			t.Errorf("status %d", status)
		}
		if id := <-reset; id != 3 {
			t.Errorf("stream %d was reset", id)
		}
		if status := send("POST", content); status != 200 {
			t.Errorf("status %d", status)
		}
		if id := <-ended; id != 5 {
			t.Errorf("stream %d ended", id)
		}
	})
}
