package rpc

import "sync/atomic"

// phase is what a client's stream has come to. It never goes back.
//
//	phase       another attempt may follow   messages are sent   messages are kept   RecvMsg has the result
//	replayable  yes                          yes                 yes                 no
//	committed   no                           yes                 no                  no
//	broken      no                           no                  no                  no
//	over        no                           no                  until released      yes
//	released    no                           no                  no                  yes
//
// A stream commits when the server has answered, when its caller has asked for the context, which has the peer, when more was sent than may be
// kept, and when the end of an attempt forbids another. It breaks when part of a message may have been sent. It is over when its result is
// known, and released when its memory has been freed and its end reported.
type phase uint32

const (
	replayable phase = iota
	committed
	broken
	over
	released
)

// streamPhase is the phase of one stream, for any number of goroutines.
type streamPhase struct{ v atomic.Uint32 }

func (p *streamPhase) get() phase { return phase(p.v.Load()) }

// advance goes to next. It reports whether the stream had not come so far.
func (p *streamPhase) advance(next phase) bool {
	for {
		now := p.v.Load()
		if phase(now) >= next {
			return false
		}
		if p.v.CompareAndSwap(now, uint32(next)) {
			return true
		}
	}
}
