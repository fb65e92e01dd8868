package conn

import "sync"

// group counts the goroutines of a connection, so that its end can be waited for: then none of them holds a
// buffer any more. Unlike a sync.WaitGroup it may be joined and waited for concurrently.
type group struct {
	mu   sync.Mutex
	n    int
	idle chan struct{} // closed when n is zero; nil when no goroutine waits
}

// run runs f in a goroutine of the group.
func (g *group) run(f func()) {
	g.mu.Lock()
	g.n++
	g.mu.Unlock()
	go func() {
		defer g.left()
		f()
	}()
}

func (g *group) left() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.n--; g.n == 0 && g.idle != nil {
		close(g.idle)
		g.idle = nil
	}
}

// wait returns when no goroutine of the group is running.
func (g *group) wait() {
	g.mu.Lock()
	if g.n == 0 {
		g.mu.Unlock()
		return
	}
	if g.idle == nil {
		g.idle = make(chan struct{})
	}
	idle := g.idle
	g.mu.Unlock()
	<-idle
}
