package rpc

import (
	"errors"
	"io"
	"sync"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
)

// inbox is the receiving side of a stream: the messages that have come and have not been taken, and how the
// stream ended. Both ends of a call have one. The connection's reading goroutine fills it; any number of
// goroutines wait on it.
type inbox struct {
	limit int // of a message, in bytes
	// grantAt is how many bytes of messages are taken before their window is given back; 0: grantFrom. Set before
	// anything is taken.
	grantAt int32
	mode    intake // set before anything comes
	closed  bool   // the owner takes nothing any more; in is freed, now or when placing ends. Under mu
	placed  bool   // the reading goroutine writes to memory of in. Under mu

	mu        sync.Mutex
	gate      gate
	source    *h2.Stream // the stream whose window is given back; nil before it is known and after close
	in        message.Assembler
	ungranted int // bytes received whose window has not been given back
	taken     int // of these, bytes that h2 does not count as unread any more
	// end is nil while more may come. io.EOF: the peer has sent its last message, or further ones are
	// refused. Otherwise the reason why nothing more comes.
	end error
}

// intake says how messages are taken from an inbox.
type intake uint8

const (
	oneByOne intake = iota // by next, as they come
	onlyOne                // by only, when the stream has ended
)

// received is a message as it came, or the reason why there is none.
type received struct {
	msg  message.Message
	kind message.Kind
	size int // on the wire, without prefix
	err  error
}

// Errors for a number of messages that the method's kind does not allow.
var (
	errNoMessage   = errors.New("rpc: the peer ended the stream without a message")
	errTwoMessages = errors.New("rpc: the peer sent more than one message")
)

// errOver is what next returns when the inbox was closed before the peer ended.
var errOver = errors.New("rpc: the call is over")

// put takes ownership of b, the next bytes from the peer; pool is for messages that arrive in pieces. mu is held.
func (i *inbox) put(b tarn.Buffer, pool *tarn.Pool) {
	if i.end != nil || i.closed {
		b.Free()
		return
	}
	n := b.Len()
	i.in.Append(b)
	i.in.Gather(pool, i.limit)
	i.arrived(n)
}

// arrived processes n more bytes in i.in. The window of an only message is left to the owner. mu is held.
func (i *inbox) arrived(n int) {
	i.ungranted += n
	missing, size, ok := i.in.Missing()
	switch {
	case ok && i.mode == onlyOne && (size > i.limit || i.in.Len() > message.PrefixLen+size):
		i.finish(io.EOF) // only returns the error
		return
	case ok && (missing == 0 || size > i.limit):
		if i.mode == onlyOne || i.gate.announce(messageEvent) > 0 {
			return // it will be taken soon
		}
	case i.mode == oneByOne && i.gate.awaited(messageEvent):
		// The window must allow the complete message.
		i.grant()
	}
	i.in.Shrink()
}

// grant gives back the window of everything received. mu is held: only then is the stream sure not to be
// released.
func (i *inbox) grant() {
	if i.ungranted == 0 || i.source == nil {
		return
	}
	if i.taken > 0 {
		i.source.Reopen(i.taken)
	}
	if n := i.ungranted - i.taken; n > 0 {
		i.source.Consumed(n)
	}
	i.ungranted, i.taken = 0, 0
}

// grantFrom is how many bytes of messages are taken before their window is given back: much less than any
// window, but enough that the connection's lock is not taken for each small message. Until then they count as unread, also
// when the stream has no more to come, so that very many streams give it back earlier (inbox.grantAt).
const grantFrom = 4 << 10

// grantTaken gives back the window of the messages that have been taken. mu is held.
func (i *inbox) grantTaken() {
	at := int(i.grantAt)
	if at == 0 {
		at = grantFrom
	}
	if n := i.ungranted - i.in.Len(); n >= at && i.source != nil {
		i.ungranted -= n
		i.source.Consumed(n)
	}
}

// finish ends the inbox, once. Messages that have come can still be taken. mu is held.
func (i *inbox) finish(why error) {
	if i.end == nil {
		i.end = why
		i.gate.announce(headerEvent | messageEvent | endEvent)
	}
}

// fail ends the inbox because of why, even if the peer has sent its last message. mu is held.
func (i *inbox) fail(why error) {
	i.end = why
	i.gate.announce(headerEvent | messageEvent | endEvent)
}

// next waits for the next message and returns it; the caller frees it. The error is the refusal of the
// message, or the inbox's end: io.EOF, or the argument of finish or fail.
func (i *inbox) next() received {
	i.mu.Lock()
	defer i.mu.Unlock()
	for {
		m, kind, size, ok, err := i.in.Next(i.limit)
		switch {
		case ok:
			i.grantTaken()
			return received{m, kind, size, nil}
		case err != nil:
			return received{size: size, err: err}
		case i.end == io.EOF && i.in.Len() > 0:
			return received{err: message.ErrTruncated}
		case i.end != nil:
			return received{err: i.end}
		case i.closed:
			return received{err: errOver}
		}
		if i.in.Len() > 0 { // the window must allow the complete message
			i.grant()
		}
		i.gate.wait(&i.mu, messageEvent|endEvent, nil)
	}
}

// only returns the single message of a stream that has ended, to be freed by the caller; the error says that
// there is none, or more than one, or that it is refused. mu is held.
func (i *inbox) only() received {
	m, kind, size, ok, err := i.in.Next(i.limit)
	switch {
	case err != nil:
		return received{size: size, err: err}
	case !ok && i.in.Len() > 0:
		return received{err: message.ErrTruncated}
	case !ok:
		return received{err: errNoMessage}
	case i.in.Len() > 0:
		m.Free()
		return received{err: errTwoMessages}
	}
	return received{m, kind, size, nil}
}

// waitEnd waits until the inbox has ended; false: done was closed before that.
func (i *inbox) waitEnd(done <-chan struct{}) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	for i.end == nil && !i.closed {
		if !i.gate.wait(&i.mu, endEvent, done) {
			return false
		}
	}
	return true
}

// close frees the received bytes, and later ones as they come. The stream may be released afterwards.
func (i *inbox) close() {
	i.mu.Lock()
	i.closeLocked()
	i.mu.Unlock()
}

func (i *inbox) closeLocked() {
	i.closed, i.source = true, nil
	if !i.placed {
		i.in.Free()
	}
	i.gate.announce(headerEvent | messageEvent | endEvent)
}

// placeFrom is the length in bytes of DATA below which it is copied by put: copying costs less than finding
// its destination.
const placeFrom = 2 << 10

// place returns the memory for the next bytes, and keeps it until fill or unplace; nil when put is to take
// them. mu is held.
func (i *inbox) place(pool *tarn.Pool, grants *message.Allowance, plan *message.Plan) []byte {
	if i.end != nil || i.closed {
		return nil
	}
	b := i.in.Land(pool, i.limit, grants, plan)
	i.placed = len(b) > 0
	return b
}

// fill reports that the first n bytes of place's memory have been written. mu is held.
func (i *inbox) fill(n int) {
	i.placed = false
	if i.closed {
		i.in.Free()
		return
	}
	i.in.Landed(n)
	if i.end == nil {
		i.arrived(n)
	}
}

// unplace reports that nothing was written to place's memory and nothing will be.
func (i *inbox) unplace() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.placed = false
	if i.closed {
		i.in.Free()
	}
}

// placing is a connection's record of the inbox whose memory its reading goroutine writes to. A call that
// ends meanwhile must not free that memory, and h2 does not report when the writing ends; the next callback
// shows it.
type placing struct {
	now    *inbox
	grants message.Allowance
}

// begin records that b, memory of i, is written to from now on.
func (p *placing) begin(i *inbox, b []byte) {
	if len(b) > 0 {
		p.now = i
	}
}

// filled records that the writing has ended; the caller calls i.fill.
func (p *placing) filled() { p.now = nil }

// cancel ends a placement that was not followed by filled.
func (p *placing) cancel() {
	if p.now != nil {
		p.now.unplace()
		p.now = nil
	}
}
