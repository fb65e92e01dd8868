package h2http

import (
	"context"
	"sync"

	"github.com/tarn-go/tarn/h2"
)

// hooks calls the hooks of a request's httptrace.ClientTrace one after another, on a goroutine that lives as long as there are some. They
// are the caller's code, which may block, so neither the connection's goroutine nor RoundTrip's, which the context ends, calls them.
type hooks struct {
	mu      sync.Mutex
	waiting []func()
	running bool
}

// run has f called after those before.
func (h *hooks) run(f func()) {
	h.mu.Lock()
	h.waiting = append(h.waiting, f)
	idle := !h.running
	h.running = true
	h.mu.Unlock()
	if idle {
		go h.loop()
	}
}

// after calls f, which does not block: now, if no hook is under way or waits, otherwise after these. A nil h has none.
func (h *hooks) after(f func()) {
	if h == nil {
		f()
		return
	}
	h.mu.Lock()
	if !h.running {
		h.mu.Unlock()
		f()
		return
	}
	h.waiting = append(h.waiting, f)
	h.mu.Unlock()
}

func (h *hooks) loop() {
	done := false
	defer func() {
		if !done { // a hook has ended the goroutine
			go h.loop()
		}
	}()
	for {
		h.mu.Lock()
		if len(h.waiting) == 0 {
			h.running, h.waiting, done = false, nil, true
			h.mu.Unlock()
			return
		}
		f := h.waiting[0]
		h.waiting = h.waiting[1:]
		h.mu.Unlock()
		f()
	}
}

// wait waits until the hooks have returned that were to be called before, or ctx ends.
func (h *hooks) wait(ctx context.Context) {
	if h == nil {
		return
	}
	done := make(chan struct{})
	h.after(func() { close(done) })
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// traceConn reports the connection, and the header list of o, to the trace.
func (x *call) traceConn(o *h2.Out) {
	if f := x.trace.GotConn; f != nil {
		info := x.conn.gotConn()
		x.hooks.run(func() { f(info) })
	}
	f := x.trace.WroteHeaderField
	if f == nil {
		return
	}
	report := func(fields []h2.Field) {
		for _, field := range fields {
			x.hooks.run(func() { f(field.Name, []string{field.Value}) })
		}
	}
	if o.Block != nil {
		report(o.Block.Fields())
	}
	report(o.Fields)
}
