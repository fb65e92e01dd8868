package rpc

import (
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
)

// lander is an end of a call that large messages land in.
type lander interface {
	// land returns where the next bytes go, and keeps that memory until landed or
	// unlanded; nil to have them as buffers.
	land() []byte
	// landed says that the first n bytes are filled.
	landed(n int, e h2.Ending)
	// unlanded says that nothing was filled and nothing will be.
	unlanded()
}

// landings is a connection's record of the memory that its reading goroutine
// writes to right now. A call that is given up meanwhile must not free it, and
// h2 does not say when it will not be filled; the next callback does.
type landings struct {
	now    lander
	credit message.Credit
}

// settle ends a landing that was not followed by landed.
func (l *landings) settle() {
	if l.now != nil {
		l.now.unlanded()
		l.now = nil
	}
}

func (l *landings) land(x lander) []byte {
	l.settle()
	b := x.land()
	if len(b) > 0 {
		l.now = x
	}
	return b
}

func (l *landings) landed(x lander, n int, e h2.Ending) {
	l.now = nil
	x.landed(n, e)
}
