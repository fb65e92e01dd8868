package poller

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Poller waits for connections by an epoll instance of its own, which Go's poller watches as it watches a socket. The
// instance and the goroutine exist while there are connections. It is safe for concurrent use.
type Poller struct {
	period time.Duration
	epoch  time.Time // from which entry.due counts

	mu         sync.Mutex
	instance   *instance // nil: there are no connections
	blocks     []*block
	free       uint32 // one more than the index of a free entry; 0: none
	generation uint32 // how often Add was called
	count      int
}

// instance is an epoll instance.
type instance struct {
	fd   int
	file *os.File // of fd
	raw  syscall.RawConn
	next time.Time // its read deadline; under Poller.mu
}

// entry is one connection. It does not move.
type entry struct {
	conn       syscall.RawConn // nil: the entry is free
	waiter     Waiter
	due        time.Duration // 0: never
	generation uint32        // of Poller.generation, so that an old Key is known
	next       uint32        // like Poller.free
}

// block is how many entries are made at a time.
type block [64]entry

// New returns a Poller that looks for closed connections once a period.
func New(period time.Duration) *Poller { return &Poller{period: period, epoch: time.Now()} }

// Add has w.Ready called once a read of conn would not wait, at due (zero: never) or shortly after, or within a
// period after conn was closed. It reports false when the system refuses: conn is closed, has no socket, or there
// are no file descriptors left.
func (p *Poller) Add(conn syscall.RawConn, due time.Time, w Waiter) (Key, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.instance == nil {
		if err := p.open(); err != nil {
			return 0, false
		}
	}
	e, k := p.take()
	event := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLONESHOT, Fd: int32(k), Pad: int32(k >> 32)}
	if p.control(conn, unix.EPOLL_CTL_ADD, &event) != nil {
		p.put(k)
		return 0, false
	}
	e.conn, e.waiter = conn, w
	if !due.IsZero() {
		e.due = max(due.Sub(p.epoch), 1)
		if due.Before(p.instance.next) {
			p.instance.wakeAt(due)
		}
	}
	return k, true
}

// Remove reports whether it came before Ready, which is not called then.
func (p *Poller) Remove(k Key) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.remove(k) != nil
}

// Len returns how many connections are waited for.
func (p *Poller) Len() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// open makes the instance and starts its goroutine. p.mu is held.
func (p *Poller) open() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	if err := unix.SetNonblock(fd, true); err != nil { // for os.NewFile: it can be waited for
		unix.Close(fd)
		return err
	}
	in := &instance{fd: fd, file: os.NewFile(uintptr(fd), "epoll")}
	if in.raw, err = in.file.SyscallConn(); err == nil {
		err = in.wakeAt(time.Now().Add(p.period))
	}
	if err != nil {
		in.file.Close()
		return err
	}
	p.instance = in
	go p.run(in)
	return nil
}

// wakeAt sets when the goroutine looks at all connections. The read deadline must not come before next: until then
// each read would fail at once, and the goroutine would spin.
func (in *instance) wakeAt(t time.Time) error {
	in.next = t
	return in.file.SetReadDeadline(t)
}

// control adds conn's socket to the instance or removes it. p.mu is held.
func (p *Poller) control(conn syscall.RawConn, op int, event *unix.EpollEvent) error {
	var failed error
	err := conn.Control(func(fd uintptr) { failed = unix.EpollCtl(p.instance.fd, op, int(fd), event) })
	if err != nil {
		return err
	}
	return failed
}

// take returns a free entry. p.mu is held.
func (p *Poller) take() (*entry, Key) {
	if p.free == 0 {
		b := new(block)
		base := uint32(len(p.blocks)) * uint32(len(b))
		p.blocks = append(p.blocks, b)
		for i := range b {
			b[len(b)-1-i].next = p.free
			p.free = base + uint32(len(b)-i)
		}
	}
	i := p.free - 1
	e := p.entry(i)
	p.free = e.next
	p.generation++
	e.generation = p.generation
	p.count++
	return e, Key(e.generation)<<32 | Key(i)
}

func (p *Poller) entry(i uint32) *entry {
	n := uint32(len(block{}))
	return &p.blocks[i/n][i%n]
}

// put makes k's entry free. p.mu is held.
func (p *Poller) put(k Key) {
	e := p.entry(uint32(k))
	e.conn, e.waiter, e.due = nil, nil, 0
	e.next, p.free = p.free, uint32(k)+1
	if p.count--; p.count == 0 {
		p.instance.wakeAt(time.Unix(1, 0)) // the goroutine ends
	}
}

// remove returns k's waiter, for which nothing is done any more, or nil. p.mu is held.
func (p *Poller) remove(k Key) Waiter {
	i := uint32(k)
	if uint64(i) >= uint64(len(p.blocks))*uint64(len(block{})) {
		return nil
	}
	e := p.entry(i)
	if e.conn == nil || e.generation != uint32(k>>32) {
		return nil
	}
	w := e.waiter
	_ = p.control(e.conn, unix.EPOLL_CTL_DEL, nil) // the system has removed a closed socket itself
	p.put(k)
	return w
}

// run waits until there are no connections.
func (p *Poller) run(in *instance) {
	var (
		events [64]unix.EpollEvent
		n      int
		ready  []Waiter
	)
	wait := func(fd uintptr) bool {
		var err error
		for {
			if n, err = unix.EpollWait(int(fd), events[:], 0); err != unix.EINTR {
				return n != 0
			}
		}
	}
	for {
		err := in.raw.Read(wait)
		p.mu.Lock()
		if err == nil {
			for _, e := range events[:max(n, 0)] {
				if w := p.remove(Key(uint32(e.Pad))<<32 | Key(uint32(e.Fd))); w != nil {
					ready = append(ready, w)
				}
			}
		}
		if now := time.Now(); p.count > 0 && !now.Before(in.next) {
			ready = p.scan(ready, now)
		}
		over := p.count == 0
		if over {
			p.instance, p.blocks, p.free = nil, nil, 0
			in.file.Close()
		}
		p.mu.Unlock()
		for i, w := range ready {
			w.Ready()
			ready[i] = nil
		}
		if ready = ready[:0]; cap(ready) > len(events) {
			ready = nil
		}
		if over {
			return
		}
	}
}

// scan removes the connections that are closed and those whose time has come, appends their waiters to ready, and
// decides when to do so again. p.mu is held.
func (p *Poller) scan(ready []Waiter, now time.Time) []Waiter {
	next, since := now.Add(p.period), now.Sub(p.epoch)
	for b, block := range p.blocks {
		for i := range block {
			e := &block[i]
			if e.conn == nil {
				continue
			}
			due := e.due != 0 && e.due <= since
			if due || e.conn.Control(nothing) != nil {
				ready = append(ready, p.remove(Key(e.generation)<<32|Key(b*len(block)+i)))
			} else if at := p.epoch.Add(e.due); e.due != 0 && at.Before(next) {
				next = at
			}
		}
	}
	if p.count > 0 {
		p.instance.wakeAt(next)
	}
	return ready
}

// nothing is called with the socket of a connection that is not closed.
func nothing(uintptr) {}
