package h2

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"golang.org/x/net/http2"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
)

// sourceFunc is a Source.
type sourceFunc func(n int) tarn.Buffer

func (f sourceFunc) Supply(n int) tarn.Buffer { return f(n) }

// sourceOf supplies p, in pieces that are rarely what was asked for.
func sourceOf(t testing.TB, pool *tarn.Pool, p []byte) Source {
	left, calls := p, 0
	return sourceFunc(func(n int) tarn.Buffer {
		if n <= 0 || n > supplySize {
			t.Errorf("asked for %d bytes", n)
		}
		if calls++; calls%3 == 0 {
			n = n/2 + 1
		}
		n = min(n, len(left))
		b := pool.Copy(left[:n])
		left = left[n:]
		return b
	})
}

// pattern returns n bytes of which no run repeats soon.
func pattern(n int) []byte {
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return p
}

// TestSource: DATA of a Source follows Data and Rest, and the end of the stream follows it, on connections with sockets and without, for
// streams that are incremental and that are not.
func TestSource(t *testing.T) {
	for _, w := range []struct {
		name string
		wiring
	}{{"socket", wireOver}, {"pipe", pipeWiring}} {
		t.Run(w.name, func(t *testing.T) {
			p := newPair(t, w.wiring, Config{}, Config{})
			want := pattern(1_000_000)
			k := newCall()
			s, err := p.c.Open(context.Background(), k, &Out{Block: testRequest})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Release()
			var rest tarn.Chain
			rest.Append(p.pool.Copy(want[10:20_000]))
			o := &Out{Data: p.pool.Copy(want[:10]), Rest: &rest, Source: sourceOf(t, p.pool, want[20_000:]), SourceLen: int64(len(want) - 20_000), Ending: End}
			if err := s.Write(context.Background(), o); err != nil {
				t.Fatal(err)
			}
			if o.SourceLen != 0 {
				t.Errorf("%d bytes left", o.SourceLen)
			}
			<-k.done
			if k.err != nil || !bytes.Equal(k.body, want) {
				t.Errorf("%d bytes came back: %v", len(k.body), k.err)
			}
		})
	}
}

// TestSources: the Sources of several streams, among short messages.
func TestSources(t *testing.T) {
	p := newPair(t, wireOver, Config{}, Config{})
	want := pattern(300_000)
	done := make(chan struct{})
	for range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			k := newCall()
			s, err := p.c.Open(context.Background(), k, &Out{Block: testRequest})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Release()
			o := &Out{Source: sourceOf(t, p.pool, want), SourceLen: int64(len(want)), Ending: End}
			if err := s.Write(context.Background(), o); err != nil {
				t.Error(err)
				return
			}
			if <-k.done; k.err != nil || !bytes.Equal(k.body, want) {
				t.Errorf("%d bytes came back: %v", len(k.body), k.err)
			}
		}()
		p.do(t, want[:100])
	}
	for range 8 {
		<-done
	}
}

// TestSourcesOfManyStreams: a batch takes of many short Sources what it takes of one long one.
func TestSourcesOfManyStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const streams, size = 500, minFill / 4
		const socket = 64 << 10 // what bufferedPipe takes
		a, b := bufferedPipe()
		pool := tarntest.NewPool(t)
		rec := newRecorder(t)
		c, err := NewClient(a, rec, Config{Pool: pool})
		if err != nil {
			t.Fatal(err)
		}
		run := make(chan struct{})
		go func() { defer close(run); c.Run() }()
		fr := http2.NewFramer(b, b)
		io.ReadFull(b, make([]byte, len(Preface)))
		fr.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: streams})
		fr.WriteWindowUpdate(0, maxWindow-initialWindow)
		<-rec.gotSettings
		synctest.Wait()
		ctx, cancel := context.WithCancel(context.Background())
		var supplied atomic.Int64
		var wg sync.WaitGroup
		for range streams {
			s, err := c.Open(ctx, newCall(), &Out{Block: testRequest})
			if err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				source := sourceFunc(func(n int) tarn.Buffer { supplied.Add(int64(n)); return pool.Get(n) })
				s.Write(ctx, &Out{Source: source, SourceLen: size, Ending: End})
				s.Release()
			})
		}
		synctest.Wait()
		io.ReadFull(b, make([]byte, socket)) // the first batch leaves
		synctest.Wait()
		if n, most := supplied.Load(), int64(2*socket+2*(batchLimit+minFill)); n < socket || n > most { // HEADERS are among what it took
			t.Errorf("%d bytes were supplied while the peer took %d, not at most %d", n, 2*socket, most)
		}
		cancel()
		a.Close()
		b.Close()
		wg.Wait()
		<-run
	})
}

// TestSourceEnds: a Source that supplies less ends the Write, which tells how much is missing; the stream goes on.
func TestSourceEnds(t *testing.T) {
	p := newPair(t, wireOver, Config{}, Config{})
	want := pattern(200_000)
	k := newCall()
	s, err := p.c.Open(context.Background(), k, &Out{Block: testRequest})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Release()
	o := &Out{Source: sourceOf(t, p.pool, want[:150_000]), SourceLen: int64(len(want)), Ending: End}
	if err := s.Write(context.Background(), o); err != nil || o.SourceLen != 50_000 {
		t.Fatalf("%d bytes left: %v", o.SourceLen, err)
	}
	if err := s.Write(context.Background(), &Out{Data: p.pool.Copy(want[150_000:]), Ending: End}); err != nil {
		t.Fatal(err)
	}
	if <-k.done; k.err != nil || !bytes.Equal(k.body, want) {
		t.Errorf("%d bytes came back: %v", len(k.body), k.err)
	}
}

// TestWriteEndsWhileSupplied: whatever ends a Write while its Source is asked, the Write returns after the Source has, with the reason;
// what the Source has supplied is freed, and does not count as left.
func TestWriteEndsWhileSupplied(t *testing.T) {
	for _, x := range []struct {
		name string
		end  func(p *pair, s *Stream, cancel context.CancelFunc)
		want error // nil: any
	}{
		{"context", func(_ *pair, _ *Stream, cancel context.CancelFunc) { cancel() }, context.Canceled},
		{"Reset", func(_ *pair, s *Stream, _ context.CancelFunc) { s.Reset(Cancel) }, ErrStreamDone},
		{"connection", func(p *pair, _ *Stream, _ context.CancelFunc) { go p.s.Close() }, nil},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, memoryWiring, Config{}, Config{})
				s, err := p.c.Open(context.Background(), newCall(), &Out{Block: testRequest})
				if err != nil {
					t.Fatal(err)
				}
				asked, supply := make(chan struct{}), make(chan struct{})
				supplied := 0
				source := sourceFunc(func(n int) tarn.Buffer {
					close(asked)
					<-supply
					supplied = n
					return p.pool.Get(n)
				})
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				wrote := make(chan error, 1)
				o := &Out{Source: source, SourceLen: 1 << 20}
				go func() { wrote <- s.Write(ctx, o) }()
				<-asked
				x.end(p, s, cancel)
				synctest.Wait()
				select {
				case err := <-wrote:
					t.Errorf("the Write returned while its Source was asked: %v", err)
				default:
				}
				close(supply)
				if err := <-wrote; err == nil || x.want != nil && !errors.Is(err, x.want) {
					t.Errorf("the Write returned %v", err)
				}
				if want := 1<<20 - int64(supplied); o.SourceLen != want {
					t.Errorf("%d bytes left, but the Source has %d", o.SourceLen, want)
				}
				s.Release()
			})
		})
	}
}

// TestSourceThatPanics: the panic of a Source, or that it supplies more than it was asked for, is a panic of its own Write, whichever goroutine
// has asked it; stream and connection go on.
func TestSourceThatPanics(t *testing.T) {
	for _, w := range []struct {
		name string
		wiring
	}{{"socket", wireOver}, {"pipe", pipeWiring}} {
		for _, x := range []struct {
			name   string
			supply func(pool *tarn.Pool, n int) tarn.Buffer
			want   any
		}{
			{"panic", func(*tarn.Pool, int) tarn.Buffer { panic("the Source") }, "the Source"},
			{"more", func(pool *tarn.Pool, n int) tarn.Buffer { return pool.Get(n + 1) }, errSupplied},
		} {
			t.Run(w.name+"/"+x.name, func(t *testing.T) {
				p := newPair(t, w.wiring, Config{}, Config{})
				k := newCall()
				s, err := p.c.Open(context.Background(), k, &Out{Block: testRequest})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Release()
				calls := 0
				source := sourceFunc(func(n int) tarn.Buffer {
					if calls++; calls == 1 {
						return p.pool.Get(n)
					}
					return x.supply(p.pool, n)
				})
				func() {
					defer func() {
						if v := recover(); v != x.want {
							t.Errorf("Write has panicked with %v", v)
						}
					}()
					s.Write(context.Background(), &Out{Source: source, SourceLen: 1 << 20, Ending: End})
					t.Error("Write has returned")
				}()
				p.do(t, pattern(100_000)) // another stream
				if err := s.Write(context.Background(), &Out{Ending: End}); err != nil {
					t.Errorf("the stream does not go on: %v", err)
				}
				if <-k.done; k.err != nil {
					t.Error(k.err)
				}
			})
		}
	}
}
