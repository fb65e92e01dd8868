package h2http_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/tarn-go/tarn/h2"
)

// windows are those of a client, on the server's side of a connection.
type windows struct {
	initial int64 // of a stream, as set
	conn    int64
	sent    int64
	streams map[uint32]int64 // what is left of them, without changes of initial after the request
}

// read reads a frame and answers what must be answered.
func (w *windows) read(fr *http2.Framer) (http2.Frame, error) {
	f, err := fr.ReadFrame()
	switch f := f.(type) {
	case *http2.SettingsFrame:
		if !f.IsAck() {
			if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
				w.initial = int64(v)
			}
			fr.WriteSettingsAck()
		}
	case *http2.PingFrame:
		if !f.IsAck() {
			fr.WritePing(true, f.Data)
		}
	case *http2.HeadersFrame:
		w.streams[f.StreamID] = w.initial
	case *http2.WindowUpdateFrame:
		if f.StreamID == 0 {
			w.conn += int64(f.Increment)
		} else {
			w.streams[f.StreamID] += int64(f.Increment)
		}
	}
	return f, err
}

// fill sends as much on the streams as the windows hold, until the client gives nothing back.
func (w *windows) fill(fr *http2.Framer) error {
	for sent := true; sent; {
		sent = false
		for id, room := range w.streams {
			for ; min(room, w.conn) > 0; sent = true {
				n := min(room, w.conn, 16<<10)
				if err := fr.WriteData(id, false, make([]byte, n)); err != nil {
					return err
				}
				room, w.conn, w.sent = room-n, w.conn-n, w.sent+n
			}
			w.streams[id] = room
		}
		fr.WritePing(false, [8]byte{})
		for answered := false; !answered; {
			f, err := w.read(fr)
			if err != nil {
				return err
			}
			if f, ok := f.(*http2.PingFrame); ok {
				answered = f.IsAck()
			}
		}
	}
	return nil
}

// overrun answers n requests, sends as much as the windows hold, and then a byte beyond the connection's on a stream whose own has
// room. It returns the client's GOAWAY, or the error with which reading ended before.
func (w *windows) overrun(fr *http2.Framer, n int) (*http2.GoAwayFrame, error) {
	var head bytes.Buffer
	hpack.NewEncoder(&head).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
	for len(w.streams) < n {
		f, err := w.read(fr)
		if err != nil {
			return nil, err
		}
		if f, ok := f.(*http2.HeadersFrame); ok {
			fr.WriteHeaders(http2.HeadersFrameParam{StreamID: f.StreamID, BlockFragment: head.Bytes(), EndHeaders: true})
		}
	}
	if err := w.fill(fr); err != nil {
		return nil, err
	}
	for id, room := range w.streams {
		if room > 0 {
			fr.WriteData(id, false, []byte("x"))
			break
		}
	}
	for {
		f, err := w.read(fr)
		if err != nil {
			return nil, err
		}
		if f, ok := f.(*http2.GoAwayFrame); ok {
			return f, nil
		}
	}
}

// TestServerBeyondConnectionWindow: a server that sends more than the connection's window holds, while its streams' windows have room,
// loses the connection. The callers get what it sent before and the error; requests that follow take another connection.
func TestServerBeyondConnectionWindow(t *testing.T) {
	eachClient(t, func(t *testing.T, s clientStack) {
		n := 3
		if !s.own {
			n = 1 // net/http's window of a stream is longer than the connection's here
		}
		type result struct {
			goAway *http2.GoAwayFrame
			err    error
			sent   int64
		}
		results := make(chan result, 1)
		url := rawOrigin(t, s.tls, func(i int, _ io.ReadWriteCloser, fr *http2.Framer) {
			if i > 0 {
				(&script{end: ok}).serve(fr)
				return
			}
			fr.WriteSettings()
			w := &windows{initial: initialWindow, conn: initialWindow, streams: make(map[uint32]int64)}
			goAway, err := w.overrun(fr, n)
			results <- result{goAway, err, w.sent}
		})
		rt := s.make(t, &clientSetup{tr: http.Transport{HTTP2: &http.HTTP2Config{MaxReceiveBufferPerConnection: 300_000}}})
		req, _ := http.NewRequest("GET", url, nil)
		var bodies []io.ReadCloser
		for range n {
			resp, err := rt.RoundTrip(req.Clone(t.Context()))
			if err != nil {
				t.Fatal(err)
			}
			bodies = append(bodies, resp.Body)
		}
		r := <-results
		if s.own && (r.err != nil || r.goAway.ErrCode != http2.ErrCodeFlowControl) { // net/http closes the connection without a GOAWAY
			t.Errorf("the server received %v, %v", r.goAway, r.err)
		}
		received := int64(0)
		for i, body := range bodies {
			got, err := io.Copy(io.Discard, body)
			body.Close()
			received += got
			var end *h2.ConnError
			if err == nil || s.own && (!errors.As(err, &end) || end.Code != h2.FlowControlError || end.Fault != h2.Peer) {
				t.Errorf("content %d ends with %v", i, err)
			}
		}
		if r.sent > 300_000 && s.own || received != r.sent {
			t.Errorf("%d bytes were received, %d sent", received, r.sent)
		}
		mustRoundTrip(t, rt, req)
	})
}
