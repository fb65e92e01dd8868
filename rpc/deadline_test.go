package rpc_test

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/internal/faultnet"
	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
)

// lateBy bounds how long after its deadline a call ends whose socket is full.
const lateBy = 50 * time.Millisecond

// Calls end while no data drains, in fake time: every delay is one that the code asks for, not the machine's.
func TestDeadlineUnderAFullSocket(t *testing.T) {
	t.Parallel()
	for _, kind := range []faultnet.Kind{faultnet.Memory, faultnet.MemoryTLS, faultnet.Pipe} {
		for name, side := range stalledSides {
			t.Run(fmt.Sprint(kind, " ", name), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					for _, late := range side(t, kind, time.Second) {
						if late < 0 || late > lateBy {
							t.Errorf("a call ended %v after its deadline", late)
						}
					}
				})
			})
		}
	}
}

// TestDeadlineUnderAFullSocketForReal does the same with sockets and one, two and eight processors. The
// machine contributes to these delays, so the limit is wide: it excludes calls that wait for the network. What a busy machine
// takes away from the process altogether does not count. BenchmarkDeadline prints the delays.
func TestDeadlineUnderAFullSocketForReal(t *testing.T) {
	for _, procs := range []int{1, 2, 8} {
		for _, kind := range []faultnet.Kind{faultnet.TCP, faultnet.TLS, faultnet.Wrapped} {
			for name, side := range stalledSides {
				t.Run(fmt.Sprint(kind, " ", name, " ", procs), func(t *testing.T) {
					defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
					lost := lostTime()
					late := side(t, kind, 100*time.Millisecond)
					if most, lost := slices.Max(late), lost(); most > 5*time.Second+lost {
						t.Errorf("a call ended %v after its deadline, of which the process did not run for %v", most, lost)
					}
				})
			}
		}
	}
}

// lostTime adds up, until the function that it returns is called, by how much later than asked for the timers of a goroutine that does nothing else
// woke it.
func lostTime() (end func() time.Duration) {
	const every = 10 * time.Millisecond
	over, sum := make(chan struct{}), make(chan time.Duration)
	go func() {
		var lost time.Duration
		for {
			began := time.Now()
			select {
			case <-time.After(every):
				lost += time.Since(began) - every
			case <-over:
				sum <- lost + max(0, time.Since(began)-every)
				return
			}
		}
	}()
	return func() time.Duration { close(over); return <-sum }
}

// BenchmarkDeadline prints how long after its deadline a call ends whose socket is full, in milliseconds: the
// median, the 99th percentile and the maximum.
func BenchmarkDeadline(b *testing.B) {
	for _, kind := range faultnet.Kinds {
		for name, side := range stalledSides {
			b.Run(fmt.Sprintf("kind=%v/side=%s", kind, name), func(b *testing.B) {
				var late []time.Duration
				for range b.N {
					late = append(late, side(b, kind, 100*time.Millisecond)...)
				}
				slices.Sort(late)
				b.ReportMetric(float64(late[len(late)/2])/1e6, "ms-late")
				b.ReportMetric(float64(late[len(late)*99/100])/1e6, "ms-late-p99")
				b.ReportMetric(float64(late[len(late)-1])/1e6, "ms-late-most")
			})
		}
	}
}

// stalledSides make calls with the given deadline on a connection that stalls, and return how late each ended
// for the client or the handler.
var stalledSides = map[string]func(testing.TB, faultnet.Kind, time.Duration) []time.Duration{
	"client": clientOfAStall,
	"server": handlersOfAStall,
}

// lateness collects how late calls end.
type lateness struct {
	mu  sync.Mutex
	all []time.Duration
}

func (l *lateness) note(ctx context.Context) {
	now := time.Now()
	at, _ := ctx.Deadline()
	l.mu.Lock()
	l.all = append(l.all, now.Sub(at))
	l.mu.Unlock()
}

func clientOfAStall(t testing.TB, kind faultnet.Kind, after time.Duration) []time.Duration {
	f := newFaulty(t, kind, &testService{}, wideWindows...)
	if _, err := f.calls.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	f.each(func(l *faultnet.Link) { l.Stall() })
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	var late lateness
	var wg sync.WaitGroup
	calls := map[string]func() error{
		"a large call": func() error {
			_, err := f.calls.UnaryCall(ctx, &pb.SimpleRequest{Payload: payload(1 << 20)})
			return err
		},
		"a small call": func() error {
			_, err := f.calls.EmptyCall(ctx, &pb.Empty{})
			return err
		},
		"SendMsg": func() error {
			s, err := f.calls.FullDuplexCall(ctx)
			for err == nil {
				err = s.Send(&pb.StreamingOutputCallRequest{Payload: payload(1 << 20)})
			}
			if err == io.EOF {
				_, err = s.Recv()
			}
			return err
		},
		"RecvMsg": func() error {
			s, err := f.calls.FullDuplexCall(ctx)
			if err == nil {
				_, err = s.Recv()
			}
			return err
		},
	}
	for name, call := range calls {
		for range 5 {
			wg.Add(1)
			go func() {
				defer wg.Done()
				err := call()
				late.note(ctx)
				if status.Code(err) != codes.DeadlineExceeded {
					t.Errorf("%s: %v", name, err)
				}
			}()
		}
	}
	wg.Wait()
	f.each(func(l *faultnet.Link) { l.Break(faultnet.RST) })
	return late.all
}

func handlersOfAStall(t testing.TB, kind faultnet.Kind, after time.Duration) []time.Duration {
	const handlers = 5
	var late lateness
	begun := make(chan chan struct{}) // which is closed when the handler has left
	f := newFaulty(t, kind, &testService{duplex: func(s pb.TestService_FullDuplexCallServer) error {
		left := make(chan struct{})
		defer close(left)
		select {
		case begun <- left:
		case <-s.Context().Done():
			return nil
		}
		for {
			if err := s.Send(&pb.StreamingOutputCallResponse{Payload: payload(1 << 20)}); err != nil {
				late.note(s.Context())
				return err
			}
		}
	}})
	f.client = dialAgain(t, f, rpc.WithInitialWindowSize(64<<20), rpc.WithInitialConnWindowSize(256<<20))
	c := pb.NewTestServiceClient(f.client)
	if _, err := c.EmptyCall(ctxFor(t), &pb.Empty{}); err != nil {
		t.Fatal(err)
	}
	f.each(func(l *faultnet.Link) { l.ToClient.Stall() })
	var running []chan struct{}
	for len(running) < handlers {
		ctx, cancel := context.WithTimeout(context.Background(), after)
		defer cancel()
		s, err := c.FullDuplexCall(ctx)
		if status.Code(err) == codes.DeadlineExceeded {
			continue // before the request was sent
		}
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			s.Recv()
		}()
		select {
		case left := <-begun:
			running = append(running, left)
		case <-ended: // the deadline has passed before the handler began
		}
	}
	f.each(func(l *faultnet.Link) { l.ToServer.Stall() }) // the client's reset does not reach them
	for _, left := range running {
		<-left
	}
	f.each(func(l *faultnet.Link) { l.Break(faultnet.RST) })
	return late.all
}
