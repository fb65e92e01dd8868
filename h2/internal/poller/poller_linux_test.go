package poller

import (
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// waiter counts its calls.
type waiter struct{ ready chan struct{} }

func newWaiter() waiter       { return waiter{make(chan struct{}, 2)} }
func (w waiter) Ready()       { w.ready <- struct{}{} }
func (w waiter) await()       { <-w.ready }
func (w waiter) called() bool { return len(w.ready) > 0 }

// pipe returns a TCP connection's two ends.
func pipe(t testing.TB) (*net.TCPConn, *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a.(*net.TCPConn), b.(*net.TCPConn)
}

func raw(t testing.TB, c syscall.Conn) syscall.RawConn {
	t.Helper()
	r, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func add(t testing.TB, p *Poller, c syscall.Conn, due time.Time, w Waiter) Key {
	t.Helper()
	k, ok := p.Add(raw(t, c), due, w)
	if !ok {
		t.Fatal("refused")
	}
	return k
}

// TestReady: Ready is called for what makes a read return.
func TestReady(t *testing.T) {
	for name, cause := range map[string]func(a, b *net.TCPConn){
		"input":                func(a, b *net.TCPConn) { a.Write([]byte("x")) },
		"end of the stream":    func(a, b *net.TCPConn) { a.CloseWrite() },
		"reset":                func(a, b *net.TCPConn) { a.SetLinger(0); a.Close() },
		"closed by other code": func(a, b *net.TCPConn) { b.Close() },
		"own half closed":      func(a, b *net.TCPConn) { b.CloseRead() },
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pipe(t)
			p, w := New(time.Millisecond), newWaiter()
			k := add(t, p, b, time.Time{}, w)
			cause(a, b)
			w.await()
			if p.Remove(k) {
				t.Error("Remove after Ready")
			}
		})
		t.Run(name+", before Add", func(t *testing.T) {
			a, b := pipe(t)
			p, w := New(time.Millisecond), newWaiter()
			cause(a, b)
			if _, ok := p.Add(raw(t, b), time.Time{}, w); ok {
				w.await()
			} else if name != "closed by other code" {
				t.Error("refused")
			}
		})
	}
}

// TestDue: Ready is called at the time given, not before, and without a period's delay.
func TestDue(t *testing.T) {
	_, b := pipe(t)
	_, c := pipe(t)
	p := New(time.Hour)
	soon, late := newWaiter(), newWaiter()
	k := add(t, p, b, time.Now().Add(time.Hour), late)
	due := time.Now().Add(20 * time.Millisecond)
	add(t, p, c, due, soon)
	soon.await()
	if time.Now().Before(due) {
		t.Error("called too early")
	}
	if late.called() || !p.Remove(k) {
		t.Error("the other connection's Ready was called, an hour too early")
	}
}

// TestRemove: after Remove nothing is called, and an old Key does not name what took its place.
func TestRemove(t *testing.T) {
	a, b := pipe(t)
	p, first, second := New(time.Millisecond), newWaiter(), newWaiter()
	old := add(t, p, b, time.Time{}, first)
	if !p.Remove(old) || p.Remove(old) {
		t.Error("Remove is true once")
	}
	add(t, p, b, time.Time{}, second)
	if p.Remove(old) {
		t.Error("an old Key has removed another connection")
	}
	a.Write([]byte("x"))
	second.await()
	if p.Remove(old) || first.called() {
		t.Error("Ready was called after Remove")
	}
}

// TestEmpty: without connections there is no goroutine, no descriptor and no memory.
func TestEmpty(t *testing.T) {
	p := New(time.Hour)
	for range 3 {
		var keys []Key
		for range 70 { // more than a block
			_, b := pipe(t)
			keys = append(keys, add(t, p, b, time.Time{}, newWaiter()))
		}
		if p.Len() != len(keys) {
			t.Errorf("%d connections, not %d", p.Len(), len(keys))
		}
		for _, k := range keys {
			p.Remove(k)
		}
		for end := time.Now().Add(30 * time.Second); ; runtime.Gosched() {
			p.mu.Lock()
			instance, blocks := p.instance != nil, len(p.blocks)
			empty := !instance && p.blocks == nil
			p.mu.Unlock()
			if empty {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("not empty after 30 s; an instance: %v, blocks: %d", instance, blocks)
			}
		}
	}
}

// TestMany: more connections than one system call reports, added, woken and removed at the same time.
func TestMany(t *testing.T) {
	const conns, turns = 100, 20
	p := New(time.Millisecond)
	var wg sync.WaitGroup
	for range conns {
		a, b := pipe(t)
		wg.Go(func() {
			for range turns {
				w := newWaiter()
				k := add(t, p, b, time.Time{}, w)
				wrote := make(chan struct{})
				go func() {
					defer close(wrote)
					a.Write([]byte("x"))
				}()
				if rand.N(2) == 0 || !p.Remove(k) {
					w.await()
				}
				<-wrote
				if _, err := io.ReadFull(b, make([]byte, 1)); err != nil {
					t.Error(err)
				}
				if w.called() {
					t.Error("Ready was called twice, or after Remove")
				}
			}
		})
	}
	wg.Wait()
	if p.Len() != 0 {
		t.Errorf("%d connections are left", p.Len())
	}
}

// TestNoSocket: what the system cannot wait for is refused.
func TestNoSocket(t *testing.T) {
	p := New(time.Hour)
	_, b := pipe(t)
	b.Close()
	if _, ok := p.Add(raw(t, b), time.Time{}, newWaiter()); ok || p.Len() != 0 {
		t.Error("a closed connection was added")
	}
}

// BenchmarkScan is what each connection costs once a period.
func BenchmarkScan(b *testing.B) {
	const conns = 200
	p := New(time.Hour)
	for range conns {
		_, c := pipe(b)
		k := add(b, p, c, time.Time{}, newWaiter())
		defer p.Remove(k)
	}
	for b.Loop() {
		p.mu.Lock()
		p.scan(nil, time.Now())
		p.mu.Unlock()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/conns, "ns/conn")
}
