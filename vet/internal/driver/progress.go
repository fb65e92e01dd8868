package driver

import (
	"fmt"
	"sync"
)

// Progress says how far Load and Run are. A nil Progress counts nothing.
type Progress struct {
	mu          sync.Mutex
	what        string
	done, total int
}

func (p *Progress) next(what string, total int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.what, p.done, p.total = what, 0, total
	p.mu.Unlock()
}

func (p *Progress) step() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.done++
	p.mu.Unlock()
}

func (p *Progress) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total == 0 {
		return p.what
	}
	return fmt.Sprintf("%s: %d of %d packages", p.what, p.done, p.total)
}
