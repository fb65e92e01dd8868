package h2

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/tarntest"
)

// logBuffer is where a logger writes.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestServerReports: a connection that is ended because of a limit leaves a line and
// a counter.
func TestServerReports(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		log := new(logBuffer)
		rec := newRecorder(t)
		m, err := Servers(Config{Pool: tarntest.NewPool(t), MaxStreams: 1, Limits: Limits{Resets: 10}, Log: slog.New(slog.NewTextHandler(log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		a, b := wireOver(t)
		s := m.Make(b, rec)
		run := make(chan error)
		go func() { run <- s.Run() }()
		r := newRaw(t, a)
		a.Write([]byte(Preface))
		r.fr.WriteSettings()
		go r.listen()
		<-rec.gotSettings
		r.fr.WriteSettingsAck() // or more streams than permitted would not be the client's fault
		if n := m.Stats().Conns; n != 1 {
			t.Errorf("%d connections", n)
		}
		r.request(1, More)
		r.flood(1_000_000, func(i int) error { return r.request(uint32(2*i+3), End) }) // 500 a second are not held against it
		r.wantEnd(s, EnhanceYourCalm)
		err = <-run
		var ce *ConnError
		if !errors.As(err, &ce) || ce.Fault != Peer {
			t.Fatal(err)
		}
		st := m.Stats()
		if st.Conns != 0 || st.Refused < 10 || st.ResetsSent != st.Refused || st.GoAwaysSent[EnhanceYourCalm] != 1 || st.Ended[ce.Reason] != 1 {
			t.Errorf("%+v", st)
		}
		if line := log.String(); !strings.Contains(line, ce.Reason) || !strings.Contains(line, "ENHANCE_YOUR_CALM") || !strings.Contains(line, "side=server") {
			t.Errorf("logged: %q", line)
		}
	})
}

// TestClientReports: what the peer's GOAWAY said is the error of the streams that it
// may have processed, is logged and counted.
func TestClientReports(t *testing.T) {
	faultnet.EachSocket(t, func(t faultnet.OnKind) {
		for _, streams := range []int{0, 1} {
			log := new(logBuffer)
			rec := newRecorder(t)
			m, err := Clients(Config{Pool: tarntest.NewPool(t), Log: slog.New(slog.NewTextHandler(log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			a, b := wireOver(t)
			c := m.Make(a, rec)
			run := make(chan error)
			go func() { run <- c.Run() }()
			r := newRaw(t, b)
			readPreface(t, b)
			r.fr.WriteSettings()
			go r.listen()
			<-rec.gotSettings
			k := newCall()
			var s *Stream
			if streams > 0 {
				if s, err = c.Open(context.Background(), k, &Out{Block: testRequest}); err != nil {
					t.Fatal(err)
				}
				r.wait("the request", func(s seen) bool { return s.typ == http2.FrameHeaders })
			}
			r.fr.WriteGoAway(1, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings"))
			if streams > 0 {
				<-rec.goAway
			}
			b.Close()
			errs := []error{<-run}
			if s != nil {
				<-k.done
				errs = append(errs, k.err)
				s.Release()
			}
			for _, err := range errs {
				var ce *ConnError
				if streams == 0 && err == nil {
					continue // the client may have closed first
				}
				if !errors.As(err, &ce) || ce.Code != EnhanceYourCalm || ce.Reason != "too_many_pings" || ce.Fault != Told {
					t.Errorf("%d streams: %v", streams, err)
				}
			}
			if st := m.Stats(); st.GoAwaysReceived[EnhanceYourCalm] != 1 || st.Conns != 0 {
				t.Errorf("%+v", st)
			}
			if !strings.Contains(log.String(), "too_many_pings") {
				t.Errorf("logged: %q", log)
			}
		}
	})
}

// TestGoAwaysOfUnknownCodes: a peer that sends GOAWAYs of ever other codes makes the Maker's counters, which are never cleared, no
// longer, and one warning in the log, whatever it sends between them.
func TestGoAwaysOfUnknownCodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := bufferedPipe()
		log := new(logBuffer)
		cfg := Config{Pool: tarntest.NewPool(t), Log: slog.New(slog.NewTextHandler(log, nil))}
		toServer(t, a, b, new(neverStarted), cfg, func(t *testing.T, m *Maker, s *Conn, r *raw) {
			io.WriteString(a, Preface)
			r.fr.WriteSettings()
			go r.listen()
			const n = 1000
			for i := range uint32(n) {
				r.fr.WriteGoAway(0, http2.ErrCode(uint32(len(codeNames))+i), nil)
				r.request(2*i+1, End)
			}
			r.fr.WriteGoAway(0, http2.ErrCodeNo, nil)
			synctest.Wait()
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
			if got := m.Stats().GoAwaysReceived; len(got) != 2 || got[InternalError] != n || got[NoError] != 1 {
				t.Errorf("%d codes are counted: %d of INTERNAL_ERROR, %d of NO_ERROR", len(got), got[InternalError], got[NoError])
			}
			if lines := strings.Count(log.String(), "level=WARN"); lines != 1 {
				t.Errorf("%d warnings", lines)
			}
		})
	})
}

// TestStatsOfAllConnections: resets, and Opens that wait for a stream, are counted for all connections of a Maker together.
func TestStatsOfAllConnections(t *testing.T) {
	const conns = 3
	m, err := Clients(Config{Pool: tarntest.NewPool(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	opened := make(chan error, conns)
	for range conns {
		a, b := wireOver(t)
		rec := newRecorder(t)
		c := m.Make(a, rec)
		go c.Run()
		defer func() { b.Close(); <-c.Done() }()
		r := newRaw(t, b)
		readPreface(t, b)
		r.fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		go r.listen()
		<-rec.gotSettings
		for range 2 { // one is reset by its peer, one by its user
			k := newCall()
			s, err := c.Open(ctx, k, &Out{Block: testRequest})
			if err != nil {
				t.Fatal(err)
			}
			if s.ID() == 1 {
				r.fr.WriteRSTStream(1, http2.ErrCodeCancel)
				<-k.done
			} else {
				s.Reset(Cancel)
			}
			s.Release()
		}
		s, err := c.Open(ctx, newCall(), &Out{Block: testRequest})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Release()
		go func() {
			_, err := c.Open(ctx, nil, &Out{Block: testRequest})
			opened <- err
		}()
	}
	eventually(t, "Opens that wait", func() bool { return m.Stats().Waiting >= conns }, func() any { return m.Stats().Waiting })
	if st := m.Stats(); st.Conns != conns || st.ResetsReceived != conns || st.ResetsSent != conns || st.Waiting != conns {
		t.Errorf("%+v", st)
	}
	cancel()
	for range conns {
		if err := <-opened; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	if n := m.Stats().Waiting; n != 0 {
		t.Errorf("%d Opens wait", n)
	}
}

// TestHoldReported: a connection that is read more slowly leaves one line.
func TestHoldReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, pool := new(logBuffer), tarntest.NewPool(t)
		a, b := bufferedPipe()
		cfg := Config{Pool: pool, Log: slog.New(slog.NewTextHandler(log, nil))}
		toServer(t, a, b, new(neverStarted), cfg, func(t *testing.T, _ *Maker, s *Conn, r *raw) {
			io.WriteString(a, Preface)
			r.fr.WriteSettings()
			go r.listen()
			for i := range 4 * s.cfg.Limits.Resets {
				id := uint32(2*i + 1)
				r.request(id, More)
				r.fr.WriteRSTStream(id, http2.ErrCodeCancel)
			}
			synctest.Wait()
			if line := log.String(); strings.Count(line, "\n") != 1 || !strings.Contains(line, "more slowly") || !strings.Contains(line, "level=WARN") {
				t.Errorf("logged: %q", line)
			}
		})
	})
}

// TestDefaultPool: without Config.Pool a connection's memory is from tarn.Shared.
func TestDefaultPool(t *testing.T) {
	for side, maker := range map[string]func(Config) (*Maker, error){"servers": Servers, "clients": Clients} {
		if m, err := maker(Config{}); err != nil || m.cfg.Pool != tarn.Shared() {
			t.Errorf("%s: the pool is another (%v)", side, err)
		}
	}
}

// stuckHandler is a slog.Handler that blocks until it is closed.
type stuckHandler chan struct{}

func (stuckHandler) Enabled(context.Context, slog.Level) bool    { return true }
func (h stuckHandler) Handle(context.Context, slog.Record) error { <-h; return nil }
func (h stuckHandler) WithAttrs([]slog.Attr) slog.Handler        { return h }
func (h stuckHandler) WithGroup(string) slog.Handler             { return h }

// endHandler is a slog.Handler that reports how far the connection was when its end was logged.
type endHandler struct {
	stuckHandler
	c    *Conn
	seen chan string
}

func (h *endHandler) Handle(context.Context, slog.Record) error {
	select {
	case <-h.c.Done():
		h.seen <- "it was done"
	default:
		h.seen <- fmt.Sprintf("%d connections, error %v", h.c.counters.conns.Load(), h.c.Err())
	}
	return nil
}

// TestDoneComesLast: when Done is closed, the end of the connection has been logged and counted, so that one who waits for Done reads what is final.
// A logger, in turn, sees a connection that has been counted, has an error, and is not done.
func TestDoneComesLast(t *testing.T) {
	h := &endHandler{seen: make(chan string, 1)}
	m, err := Clients(Config{Pool: tarntest.NewPool(t), Log: slog.New(h)})
	if err != nil {
		t.Fatal(err)
	}
	a, b := wireOver(t)
	h.c = m.Make(a, newRecorder(t))
	run := make(chan error)
	go func() { run <- h.c.Run() }()
	r := newRaw(t, b)
	readPreface(t, b)
	r.fr.WriteSettings()
	go r.listen()
	r.fr.WriteRawFrame(http2.FrameSettings, 0, 1, nil)
	<-h.c.Done()
	err = h.c.Err()
	if err == nil {
		t.Error("there is no error")
	}
	select {
	case seen := <-h.seen:
		if want := fmt.Sprintf("0 connections, error %v", err); seen != want {
			t.Errorf("the logger saw %q, want %q", seen, want)
		}
	default:
		t.Error("the end has not been logged")
	}
	<-run
}

// A logger that blocks delays neither the end of the streams that the event ends, nor what is sent.
func TestLoggerThatBlocks(t *testing.T) {
	for name, end := range map[string]func(r *raw){
		"GOAWAY":  func(r *raw) { r.fr.WriteGoAway(1, http2.ErrCodeEnhanceYourCalm, nil) },
		"a fault": func(r *raw) { r.fr.WriteRawFrame(http2.FrameSettings, 0, 1, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			stuck := make(stuckHandler)
			r, c, _ := rawClient(t, Config{Log: slog.New(stuck)})
			t.Cleanup(func() { close(stuck) }) // before rawClient's, which waits for Run
			var streams [2]*Stream
			var calls [2]*call
			for i := range streams {
				calls[i] = newCall()
				s, err := c.Open(context.Background(), calls[i], &Out{Block: testRequest})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Release()
				streams[i] = s
			}
			r.wait("requests", func(s seen) bool { return s.typ == http2.FrameHeaders && s.id == streams[1].ID() })
			end(r)
			<-calls[1].done
			if name != "GOAWAY" {
				<-calls[0].done
				return
			}
			if err := streams[0].Write(context.Background(), &Out{Data: c.cfg.Pool.Get(1), Ending: End}); err != nil {
				t.Error(err)
			}
			r.wait("DATA", func(s seen) bool { return s.typ == http2.FrameData && s.end })
		})
	}
}
