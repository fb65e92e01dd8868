package bench

import (
	"errors"
	"net"
	"sync"
	"time"

	"github.com/tarn-go/tarn/internal/child"
)

// relayCommand is the first of the arguments with which this command runs itself as a relay; the others are the address to
// which it forwards connections, and the delay.
const relayCommand = "relay"

// relayHolds is how many bytes a relay holds in each direction: the default of the largest send
// buffer on Linux (net.ipv4.tcp_wmem), which bounds what TCP has under way.
const relayHolds = 4 << 20

// startRelay starts a process that forwards connections to addr, each byte later by delay. A network
// does not share the scheduler of goroutines with the programs at its ends.
func startRelay(addr string, delay time.Duration) (*child.Process, error) {
	cmd, err := child.Self("bench", relayCommand, addr, delay.String())
	if err != nil {
		return nil, err
	}
	return child.Start(cmd)
}

// runRelay is that process.
func runRelay(addr, delay string) error {
	d, err := time.ParseDuration(delay)
	if err != nil {
		return err
	}
	over := make(chan struct{})
	l, err := child.Listen(func() { close(over) })
	if err != nil {
		return err
	}
	go func() {
		<-over
		l.Close()
	}()
	for {
		a, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		b, err := net.Dial("tcp", addr)
		if err != nil {
			a.Close() // its client reports it
			continue
		}
		go relay(b, a, d)
		go relay(a, b, d)
	}
}

// relay forwards what src sends until its end, and closes dst.
func relay(dst, src net.Conn, delay time.Duration) {
	type piece struct {
		due  time.Time
		data *[256 << 10]byte
		n    int
	}
	queue := make(chan piece, relayHolds>>10)
	var mu sync.Mutex
	passed := sync.NewCond(&mu)
	held := 0
	pool := sync.Pool{New: func() any { return new([256 << 10]byte) }}
	go func() {
		defer dst.Close()
		for p := range queue {
			time.Sleep(time.Until(p.due))
			dst.Write(p.data[:p.n]) // once dst is closed, src is read until it ends, too
			mu.Lock()
			held -= p.n
			mu.Unlock()
			passed.Signal()
			pool.Put(p.data)
		}
	}()
	for {
		// What is read is held already, so no more is read than may be: pieces of any length then pass at the same rate.
		mu.Lock()
		for held >= relayHolds {
			passed.Wait()
		}
		room := relayHolds - held
		mu.Unlock()
		data := pool.Get().(*[256 << 10]byte)
		n, err := src.Read(data[:min(room, len(data))])
		if n > 0 {
			mu.Lock()
			held += n
			mu.Unlock()
			queue <- piece{time.Now().Add(delay), data, n}
		}
		if err != nil {
			close(queue)
			return
		}
	}
}
