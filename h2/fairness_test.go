package h2

import (
	"context"
	"io"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

const (
	fairLong    = 64 << 20 // bytes of the long message
	fairStreams = 64       // and streams with a short one each
)

// fairPeer is the other end of a connection over which a long message and short ones are sent. It reads only when it is asked to.
type fairPeer struct {
	*raw
	of map[uint32]int // bytes of DATA that have come, by stream
}

func newFairPeer(t *testing.T, r *raw) *fairPeer { return &fairPeer{r, map[uint32]int{}} }

// read reads until done says so after a frame.
func (p *fairPeer) read(done func(f http2.Frame) bool) {
	for {
		f, err := p.fr.ReadFrame()
		if err != nil {
			p.t.Fatal(err)
		}
		if f, ok := f.(*http2.DataFrame); ok {
			p.of[f.StreamID] += len(f.Data())
		}
		if done(f) {
			return
		}
	}
}

// whole opens every window.
func (p *fairPeer) whole() {
	p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
	p.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
}

// measure begins when the long message on stream long is under way: start begins the others. It checks that they have all ended after most
// bytes of the long one, and that an answer to PING arrives after few.
func (p *fairPeer) measure(long uint32, most int, start func()) {
	p.t.Helper()
	p.read(func(http2.Frame) bool { return p.of[long] >= 1<<20 })
	before := p.of[long]
	start()
	p.fr.WritePing(false, [8]byte{1})
	synctest.Wait()
	pinged, ended := -1, 0
	p.read(func(f http2.Frame) bool {
		switch f := f.(type) {
		case *http2.PingFrame:
			if f.IsAck() {
				pinged = p.of[long] - before
			}
		case *http2.DataFrame:
			if f.StreamID != long && f.StreamEnded() {
				ended++
			}
		}
		return ended == fairStreams
	})
	if n := p.of[long] - before; n > most {
		p.t.Errorf("the last of the short messages came after %d bytes of the long one, more than %d", n, most)
	}
	const socket = 64 << 10 // what bufferedPipe takes
	const part = 64 << 10   // what wire.Writer sends at a time
	if few := socket + part + 32<<10 + minMaxFrame; pinged < 0 || pinged > few {
		p.t.Errorf("the answer to PING came after %d bytes of the long message, more than %d", pinged, few)
	}
}

// mostOfLong is how much of the long message may come before the end of short ones of n bytes: what is queued, and a turn for each of theirs.
func mostOfLong(n int) int {
	const socket = 64 << 10
	return socket + 2*(blockedLimit+minFill) + ((n+turnBytes-1)/turnBytes+1)*turnBytes
}

// startFair starts a server whose Streams serve handles, and a client on the other end of an in-memory connection of 64 KiB. end ends both.
func startFair(t *testing.T, serve func(ctx context.Context, pool *tarn.Pool, s *Stream)) (p *fairPeer, s *Conn, end func()) {
	a, b := bufferedPipe()
	pool := tarntest.NewPool(t)
	rec := newRecorder(t)
	ctx, cancel := context.WithCancel(context.Background())
	rec.serve = func(s *Stream, _ *call) { serve(ctx, pool, s) }
	s, err := NewServer(b, rec, Config{Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	run := make(chan struct{})
	go func() { defer close(run); s.Run() }()
	p = newFairPeer(t, newRaw(t, a))
	io.WriteString(a, Preface)
	p.whole()
	return p, s, func() {
		cancel()
		a.Close()
		<-run
		rec.calls.Wait()
	}
}

// writeOn writes pieces of n bytes until ctx ends.
func writeOn(ctx context.Context, pool *tarn.Pool, s *Stream, n int) {
	for o := (Out{Block: testResponse}); ; o = (Out{}) {
		if o.Data = pool.Get(n); s.Write(ctx, &o) != nil {
			return
		}
	}
}

// TestFairServer: responses on 64 streams beside a long one all end after few bytes of it.
func TestFairServer(t *testing.T) {
	for _, short := range []int{100, 10_000, 64 << 10, 200_000} {
		synctest.Test(t, func(t *testing.T) {
			p, _, end := startFair(t, func(ctx context.Context, pool *tarn.Pool, s *Stream) {
				n := short
				if s.ID() == 1 {
					n = fairLong
				}
				s.Write(ctx, &Out{Block: testResponse, Data: pool.Get(n), Ending: End})
			})
			defer end()
			p.request(1, End)
			p.measure(1, mostOfLong(short), func() {
				for i := range uint32(fairStreams) {
					p.request(3+2*i, End)
				}
			})
		})
	}
}

// TestFairClient: request bodies of 64 streams beside a long one all end after few bytes of it.
func TestFairClient(t *testing.T) {
	for _, short := range []int{100, 10_000, 64 << 10, 200_000} {
		synctest.Test(t, func(t *testing.T) {
			a, b := bufferedPipe()
			pool := tarntest.NewPool(t)
			rec := newRecorder(t)
			c, err := NewClient(a, rec, Config{Pool: pool})
			if err != nil {
				t.Fatal(err)
			}
			run := make(chan struct{})
			go func() { defer close(run); c.Run() }()
			p := newFairPeer(t, newRaw(t, b))
			readPreface(t, b)
			p.whole()
			<-rec.gotSettings
			ctx, cancel := context.WithCancel(context.Background())
			done := make(chan struct{})
			upload := func(n int) {
				var data tarn.Buffer
				if n > 0 {
					data = pool.Get(n)
				}
				if s, err := c.Open(ctx, newCall(), &Out{Block: testRequest, Data: data, Ending: End}); err == nil {
					s.Release()
				}
				done <- struct{}{}
			}
			synctest.Wait()
			go upload(fairLong)
			p.measure(1, mostOfLong(short), func() {
				for range fairStreams {
					go upload(short)
				}
			})
			cancel()
			a.Close()
			b.Close()
			for range 1 + fairStreams {
				<-done
			}
			<-run
		})
	}
}

// TestPrioritySignals: responses are sent one after another once the client has sent a priority, and in turns before that and
// if its priorities are ignored.
func TestPrioritySignals(t *testing.T) {
	const size = 4 * turnBytes
	for name, x := range map[string]struct {
		ignore  bool
		signal  func(p *fairPeer)
		field   string // the first request's
		inOrder bool
	}{
		"none":                {},
		"field":               {field: "u=3", inOrder: true},
		"PRIORITY_UPDATE":     {signal: func(p *fairPeer) { p.priorityUpdate(1, "u=3") }, inOrder: true},
		"incremental field":   {field: "i", inOrder: false},
		"ignored field":       {ignore: true, field: "u=3"},
		"ignored early frame": {ignore: true, signal: func(p *fairPeer) { p.priorityUpdate(3, "u=0") }},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b := bufferedPipe()
				pool := tarntest.NewPool(t)
				rec := newRecorder(t)
				rec.serve = func(s *Stream, k *call) {
					for _, f := range k.fields {
						if f.Name == "priority" {
							s.SetInitialPriority(ParsePriority(f.Value))
						}
					}
					n := size
					if s.ID() == 1 {
						n = initialWindow // it takes the connection's window
					}
					s.Write(context.Background(), &Out{Block: testResponse, Data: pool.Get(n), Ending: End})
				}
				s, err := NewServer(b, rec, Config{Pool: pool})
				if err != nil {
					t.Fatal(err)
				}
				if x.ignore {
					s.IgnorePriority()
				}
				run := make(chan struct{})
				go func() { defer close(run); s.Run() }()
				p := newFairPeer(t, newRaw(t, a))
				io.WriteString(a, Preface)
				p.fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: maxWindow})
				if x.signal != nil {
					x.signal(p)
				}
				fields := rawRequest
				if x.field != "" {
					fields = append(fields[:len(fields):len(fields)], "priority", x.field)
				}
				p.headers(1, End, fields...)
				p.read(func(http2.Frame) bool { return p.of[1] == initialWindow })
				for i := range uint32(3) {
					p.headers(3+2*i, End, fields...)
					synctest.Wait()
				}
				p.fr.WriteWindowUpdate(0, maxWindow-initialWindow)
				p.read(func(f http2.Frame) bool {
					d, ok := f.(*http2.DataFrame)
					return ok && d.StreamID != 1 && d.StreamEnded()
				})
				inOrder := p.of[3] == size && p.of[5] == 0 && p.of[7] == 0
				inTurns := p.of[5] >= size-turnBytes && p.of[7] >= size-2*turnBytes
				if x.inOrder && !inOrder || !x.inOrder && !inTurns {
					t.Errorf("bytes sent: %v", p.of)
				}
				a.Close()
				<-run
				rec.calls.Wait()
			})
		})
	}
}
