package h2http_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
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

// TestContextEndsReadingAShortBody has a body that waits although it has a GetBody.
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
