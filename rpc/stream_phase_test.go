package rpc_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// modelAttempt is one attempt at the server: what it has received, and what it is told to do.
type modelAttempt struct {
	mu   sync.Mutex
	got  []int // lengths of messages
	half bool  // the client has half-closed
	do   chan func(pb.TestService_FullDuplexCallServer) error
}

// errGoOn is the result of what does not end an attempt.
var errGoOn = status.Error(codes.Aborted, "the attempt goes on")

func (a *modelAttempt) serve(s pb.TestService_FullDuplexCallServer) error {
	go func() { // until the handler has returned
		for {
			in, err := s.Recv()
			a.mu.Lock()
			switch err {
			case nil:
				a.got = append(a.got, len(in.Payload.Body))
			case io.EOF:
				a.half = true
			}
			a.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	for {
		select {
		case do := <-a.do:
			if err := do(s); err != errGoOn {
				return err
			}
		case <-s.Context().Done():
			return s.Context().Err()
		}
	}
}

// streamModel is what a stream with a retry policy is expected to do.
type streamModel struct {
	t        *testing.T
	s        pb.TestService_FullDuplexCallClient
	cancel   context.CancelFunc
	attempts *[]*modelAttempt
	trace    []string

	committed bool
	over      bool
	code      codes.Code // once it is over
	begun     int
	sent      []int
	kept      int
	closed    bool
	answers   int

	mu       sync.Mutex
	received int
	result   error // of RecvMsg; nil: it still receives
}

const (
	modelAttempts = 4    // of the policy
	modelKept     = 2000 // bytes that may be kept
)

func (m *streamModel) last() *modelAttempt { return (*m.attempts)[len(*m.attempts)-1] }

func (m *streamModel) tell(do func(pb.TestService_FullDuplexCallServer) error) { m.last().do <- do }

func (m *streamModel) end(code codes.Code) { m.over, m.code = true, code }

// send sends a message. One of 100 bytes takes less than 200 as sent.
func (m *streamModel) send(n int) bool {
	if m.closed || m.kept+200 > modelKept {
		return false
	}
	err := m.s.Send(&pb.StreamingOutputCallRequest{Payload: payload(n)})
	if m.over {
		if err != io.EOF {
			m.t.Errorf("Send after the end: %v", err)
		}
		return true
	}
	if err != nil {
		m.t.Errorf("Send: %v", err)
	}
	m.sent = append(m.sent, n)
	if m.kept += 200; n > modelKept {
		m.committed = true
	}
	return true
}

// streamEvents are what may happen to a stream; each returns false if it cannot happen now.
var streamEvents = []struct {
	name string
	do   func(*streamModel) bool
}{
	{"send", func(m *streamModel) bool { return m.send(100) }},
	{"send again", func(m *streamModel) bool { return m.send(101) }},
	{"send more than may be kept", func(m *streamModel) bool { return m.send(modelKept + 1) }},
	{"close", func(m *streamModel) bool {
		m.closed = true
		return m.s.CloseSend() == nil
	}},
	{"ask for the context", func(m *streamModel) bool {
		m.committed = true
		return m.s.Context() != nil
	}},
	{"header", func(m *streamModel) bool {
		if m.over || m.answers > 0 {
			return false
		}
		m.answers, m.committed = 1, true
		m.tell(func(s pb.TestService_FullDuplexCallServer) error {
			if err := s.SendHeader(nil); err != nil {
				m.t.Errorf("SendHeader: %v", err)
			}
			return errGoOn
		})
		return true
	}},
	{"message", func(m *streamModel) bool {
		if m.over {
			return false
		}
		m.answers, m.committed = m.answers+2, true
		m.tell(func(s pb.TestService_FullDuplexCallServer) error {
			if err := s.Send(&pb.StreamingOutputCallResponse{}); err != nil {
				m.t.Errorf("SendMsg: %v", err)
			}
			return errGoOn
		})
		return true
	}},
	{"fail", func(m *streamModel) bool { return m.fail(codes.Unavailable) }},
	{"fail again", func(m *streamModel) bool { return m.fail(codes.Unavailable) }},
	{"fail for good", func(m *streamModel) bool { return m.fail(codes.DataLoss) }},
	{"succeed", func(m *streamModel) bool { return m.fail(codes.OK) }},
	{"cancel", func(m *streamModel) bool {
		m.cancel()
		if !m.over {
			m.end(codes.Canceled)
		}
		return true
	}},
}

// fail ends the attempt with code.
func (m *streamModel) fail(code codes.Code) bool {
	if m.over {
		return false
	}
	m.tell(func(pb.TestService_FullDuplexCallServer) error { return status.Error(code, "as told") })
	if code == codes.Unavailable && !m.committed && m.begun < modelAttempts {
		m.begun++
		return true
	}
	m.end(code)
	return true
}

// receive receives until the stream ends.
func (m *streamModel) receive() {
	for {
		_, err := m.s.Recv()
		m.mu.Lock()
		if err == nil {
			m.received++
		} else {
			m.result = err
		}
		m.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// check compares the stream with the model when nothing happens any more.
func (m *streamModel) check() {
	<-time.After(time.Second) // the time of another attempt
	synctest.Wait()
	if n := len(*m.attempts); n != m.begun {
		m.t.Errorf("%d attempts, want %d", n, m.begun)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if want := m.answers / 2; m.received != want {
		m.t.Errorf("%d messages received, want %d", m.received, want)
	}
	if !m.over {
		a := m.last()
		if !slices.Equal(a.got, m.sent) || a.half != m.closed {
			m.t.Errorf("the attempt has got %v, half-closed %v; want %v, %v", a.got, a.half, m.sent, m.closed)
		}
		if m.result != nil {
			m.t.Errorf("the stream has ended with %v", m.result)
		}
		return
	}
	err := m.result
	if err == io.EOF {
		err = nil
	}
	if m.result == nil || status.Code(err) != m.code {
		m.t.Errorf("the stream's result is %v, want %v", m.result, m.code)
	}
}

// TestStreamPhases: events in any order take a stream through its phases as its table says: which end of an attempt makes another follow,
// what that is sent, and what the stream's result is. The memory of every message is freed, which the pool checks.
func TestStreamPhases(t *testing.T) {
	streams := 400
	if testing.Short() {
		streams = 100
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	var attempts []*modelAttempt
	svc := &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		a := &modelAttempt{do: make(chan func(pb.TestService_FullDuplexCallServer) error)}
		mu.Lock()
		attempts = append(attempts, a)
		mu.Unlock()
		return a.serve(s)
	}}
	opts := []rpc.DialOption{rpc.WithDefaultCallOptions(grpc.MaxRetryRPCBufferSize(modelKept)), rpc.WithDefaultServiceConfig(fmt.Sprintf(`{"methodConfig":[{"name":[{}],
		"retryPolicy":{"maxAttempts":%d,"initialBackoff":"0.01s","maxBackoff":"0.01s","backoffMultiplier":1,"retryableStatusCodes":["UNAVAILABLE"]}}]}`, modelAttempts))}
	inBubble(t, svc, opts, func(t *testing.T, c pb.TestServiceClient) {
		for range streams {
			attempts = nil
			ctx, cancel := context.WithCancel(t.Context())
			s, err := c.FullDuplexCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			m := &streamModel{t: t, s: s, cancel: cancel, attempts: &attempts, begun: 1}
			go m.receive()
			m.check()
			for range 12 {
				e := streamEvents[r.IntN(len(streamEvents))]
				if e.do(m) {
					m.trace = append(m.trace, e.name)
					m.check()
				}
				if t.Failed() {
					t.Fatalf("after %q", m.trace)
				}
			}
			cancel()
			synctest.Wait()
		}
	})
}
