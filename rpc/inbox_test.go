package rpc

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"testing"
	"testing/synctest"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"github.com/tarn-go/tarn/tarntest"
)

// inboxModel drives an inbox step by step, with goroutines that wait for messages, for the end and for a
// header, and knows which results each of them may return.
type inboxModel struct {
	t      *testing.T
	pool   *tarn.Pool
	i      *inbox
	grants message.Allowance

	// The peer's data: messages one after the other, whose bytes follow a pattern.
	stream []byte
	at     int    // bytes of it that have been sent
	queue  []byte // of these, bytes that the inbox must still hold
	end    error
	closed bool
	place  []byte // what place has returned, until fill or unplace

	taker  *inboxWaiter[received] // waits in next
	ender  *inboxWaiter[bool]     // waits in waitEnd
	giveUp chan struct{}          // its done
	header *inboxWaiter[bool]     // waits for a header
	headed bool                   // the header has come
	steps  int
}

// inboxWaiter is a goroutine in a call of the inbox.
type inboxWaiter[T any] struct {
	result chan T
	// allowed are the results of calls that were possible at some moment since all
	// goroutines were blocked last. Empty: the call must wait.
	allowed []string
}

func wait[T any](f func() T) *inboxWaiter[T] {
	w := &inboxWaiter[T]{result: make(chan T, 1)}
	go func() { w.result <- f() }()
	return w
}

const modelLimit = 100_000

var errModel = errors.New("rpc: why a model's inbox has failed")

func newInboxModel(t *testing.T, pool *tarn.Pool, stream []byte) *inboxModel {
	return &inboxModel{t: t, pool: pool, i: &inbox{limit: modelLimit}, stream: stream}
}

// messagesOf is messages of these lengths, one after the other.
func messagesOf(lengths ...int) (stream []byte) {
	for _, n := range lengths {
		stream = append(stream, 0)
		stream = binary.BigEndian.AppendUint32(stream, uint32(n))
		for j := range n {
			stream = append(stream, byte(len(stream)+j))
		}
	}
	return stream
}

// next is the result of a call of inbox.next now; "" if it waits.
func (m *inboxModel) next() string {
	if len(m.queue) >= message.PrefixLen {
		n := int(binary.BigEndian.Uint32(m.queue[1:]))
		switch {
		case n > modelLimit:
			return message.ErrTooLarge.Error()
		case len(m.queue) >= message.PrefixLen+n:
			return fmt.Sprintf("message of %d bytes", n)
		}
	}
	switch {
	case m.end == io.EOF && len(m.queue) > 0:
		return message.ErrTruncated.Error()
	case m.end != nil:
		return m.end.Error()
	case m.closed:
		return errOver.Error()
	}
	return ""
}

// ended is the result of a call of waitEnd now.
func (m *inboxModel) ended() string {
	if m.end != nil || m.closed {
		return "true"
	}
	return ""
}

// moves are the operations on an inbox. Each reports whether it was possible.
var moves = []struct {
	name string
	do   func(*inboxModel, *rand.Rand) bool
}{
	{"put a byte", func(m *inboxModel, _ *rand.Rand) bool { return m.put(1) }},
	{"put the rest of a message", func(m *inboxModel, _ *rand.Rand) bool { return m.put(m.rest()) }},
	{"put a message and a half", func(m *inboxModel, _ *rand.Rand) bool { return m.put(m.rest() + 7) }},
	{"put some", func(m *inboxModel, r *rand.Rand) bool {
		if r == nil {
			return m.put(20_000)
		}
		return m.put(1 + r.IntN(30_000))
	}},
	{"place", func(m *inboxModel, _ *rand.Rand) bool {
		if m.place != nil {
			return false
		}
		m.i.mu.Lock()
		m.place = m.i.place(m.pool, &m.grants, nil)
		m.i.mu.Unlock()
		if len(m.place) == 0 {
			m.place = nil
		} else if m.end != nil || m.closed {
			m.t.Error("an inbox that takes nothing has returned memory")
		}
		return m.place != nil
	}},
	{"fill", func(m *inboxModel, r *rand.Rand) bool {
		if m.place == nil || m.at == len(m.stream) {
			return false
		}
		n := min(len(m.place), len(m.stream)-m.at)
		if r != nil {
			n = 1 + r.IntN(n)
		}
		copy(m.place, m.stream[m.at:m.at+n])
		m.i.mu.Lock()
		m.i.fill(n)
		m.i.mu.Unlock()
		m.place = nil
		m.sent(n)
		return true
	}},
	{"unplace", func(m *inboxModel, _ *rand.Rand) bool {
		if m.place == nil {
			return false
		}
		m.i.unplace()
		m.place = nil
		return true
	}},
	{"finish", func(m *inboxModel, _ *rand.Rand) bool {
		if m.place != nil {
			return false // the reading goroutine has given it up
		}
		m.i.mu.Lock()
		m.i.finish(io.EOF)
		m.i.mu.Unlock()
		if m.end == nil {
			m.end = io.EOF
		}
		return true
	}},
	{"fail", func(m *inboxModel, _ *rand.Rand) bool {
		m.i.mu.Lock()
		m.i.fail(errModel)
		m.i.mu.Unlock()
		m.end = errModel
		return true
	}},
	{"close", func(m *inboxModel, _ *rand.Rand) bool {
		m.i.close()
		m.closed, m.queue = true, nil
		return true
	}},
	{"wait for a message", func(m *inboxModel, _ *rand.Rand) bool {
		if m.taker != nil {
			return false
		}
		i := m.i
		m.taker = wait(i.next)
		return true
	}},
	{"wait for the end", func(m *inboxModel, _ *rand.Rand) bool {
		if m.ender != nil {
			return false
		}
		i, done := m.i, make(chan struct{})
		m.giveUp = done
		m.ender = wait(func() bool { return i.waitEnd(done) })
		return true
	}},
	{"give up waiting for the end", func(m *inboxModel, _ *rand.Rand) bool {
		if m.ender == nil || m.giveUp == nil {
			return false
		}
		close(m.giveUp)
		m.giveUp = nil
		m.ender.allowed = append(m.ender.allowed, "false")
		return true
	}},
	{"wait for a header", func(m *inboxModel, _ *rand.Rand) bool {
		if m.header != nil {
			return false
		}
		m.header = wait(func() bool { // as attempt.waitHeader
			m.i.mu.Lock()
			defer m.i.mu.Unlock()
			for !m.headed && m.i.end == nil && !m.i.closed {
				m.i.gate.wait(&m.i.mu, headerEvent|endEvent, nil)
			}
			return m.headed
		})
		return true
	}},
	{"header", func(m *inboxModel, _ *rand.Rand) bool {
		m.i.mu.Lock()
		m.headed = true
		m.i.gate.announce(headerEvent)
		m.i.mu.Unlock()
		return true
	}},
}

// rest is how many bytes of the current message remain to be sent.
func (m *inboxModel) rest() int {
	for at := 0; at < len(m.stream); {
		at += message.PrefixLen + int(binary.BigEndian.Uint32(m.stream[at+1:]))
		if at > m.at {
			return at - m.at
		}
	}
	return 0
}

// put sends n bytes, if that many remain.
func (m *inboxModel) put(n int) bool {
	if n = min(n, len(m.stream)-m.at); n == 0 || m.place != nil {
		return false
	}
	b := m.pool.Copy(m.stream[m.at : m.at+n])
	m.i.mu.Lock()
	m.i.put(b, m.pool)
	m.i.mu.Unlock()
	m.sent(n)
	return true
}

// sent records n more bytes: an inbox that has ended takes none.
func (m *inboxModel) sent(n int) {
	if m.end == nil && !m.closed {
		m.queue = append(m.queue, m.stream[m.at:m.at+n]...)
	}
	m.at += n
}

// move makes one move and records the results that waiting goroutines may return now.
func (m *inboxModel) move(n int, r *rand.Rand) bool {
	if !moves[n].do(m, r) {
		return false
	}
	m.steps++
	if m.taker != nil {
		if s := m.next(); s != "" {
			m.taker.allowed = append(m.taker.allowed, s)
		}
	}
	if m.ender != nil {
		if s := m.ended(); s != "" {
			m.ender.allowed = append(m.ender.allowed, s)
		}
	}
	if m.header != nil {
		if m.headed {
			m.header.allowed = append(m.header.allowed, "true")
		} else if s := m.ended(); s != "" {
			m.header.allowed = append(m.header.allowed, "false")
		}
	}
	return true
}

// runAll lets all goroutines run until they block, and compares.
func (m *inboxModel) runAll() {
	synctest.Wait()
	if r, ok := look(m.t, "next", &m.taker, func(r received) string {
		if r.err != nil {
			return r.err.Error()
		}
		return fmt.Sprintf("message of %d bytes", r.msg.Len())
	}); ok && r.err == nil {
		m.took(r)
	}
	look(m.t, "waitEnd", &m.ender, func(b bool) string { return fmt.Sprint(b) })
	look(m.t, "the wait for a header", &m.header, func(b bool) string { return fmt.Sprint(b) })
}

// look compares a goroutine's result, or that it has none.
func look[T any](t *testing.T, name string, w **inboxWaiter[T], text func(T) string) (r T, ok bool) {
	if *w == nil {
		return r, false
	}
	select {
	case r = <-(*w).result:
		ok = true
		got := text(r)
		for _, a := range (*w).allowed {
			if a == got {
				*w = nil
				return r, true
			}
		}
		t.Errorf("%s returned %s, not one of %q", name, got, (*w).allowed)
		*w = nil
	default:
		if len((*w).allowed) > 0 {
			t.Errorf("%s waits, and must return one of %q", name, (*w).allowed)
		}
	}
	return r, ok
}

// took compares a message with the bytes that were sent for it.
func (m *inboxModel) took(r received) {
	msg := r.msg
	msg.Flatten()
	defer msg.Free()
	n := msg.Len()
	if m.closed { // it was taken before
		return
	}
	if len(m.queue) < message.PrefixLen+n || !bytes.Equal(msg.Buf.Bytes(), m.queue[message.PrefixLen:message.PrefixLen+n]) {
		m.t.Error("another message was taken")
		return
	}
	m.queue = m.queue[message.PrefixLen+n:]
}

// over ends the model: every goroutine returns, and no memory is held.
func (m *inboxModel) over() {
	if m.place != nil {
		m.move(moveNamed("unplace"), nil)
	}
	if !m.closed {
		m.move(moveNamed("close"), nil)
	}
	m.runAll()
	if m.taker != nil || m.ender != nil || m.header != nil {
		m.t.Error("a goroutine waits for an inbox that is over")
	}
	if g := &m.i.gate; g.first != nil || g.own.busy || len(g.own.woken) != 0 {
		m.t.Errorf("left behind: %+v", g)
	}
	if n := m.pool.Stats().InUse; n != 0 {
		m.t.Errorf("%d bytes are left", n)
	}
}

func moveNamed(name string) int {
	for n := range moves {
		if moves[n].name == name {
			return n
		}
	}
	panic(name)
}

// uncheckedPool is a pool without checks, which take ten times as long: leaks are found without them.
func uncheckedPool(t *testing.T) *tarn.Pool {
	pool, err := tarn.NewPool(tarn.PoolConfig{Check: tarn.CheckOff})
	if err != nil {
		t.Fatal(err)
	}
	return pool
}

// TestInboxEverySequence makes every sequence of moves up to a length, with all goroutines blocked between
// two of them.
func TestInboxEverySequence(t *testing.T) {
	t.Parallel()
	length := 4
	if os.Getenv("TARN_LONG") != "" {
		length = 5
	}
	synctest.Test(t, func(t *testing.T) {
		pool := uncheckedPool(t)
		stream := messagesOf(0, 33_000, 3)
		steps := 0
		seq := make([]int, length)
		for {
			m := newInboxModel(t, pool, stream)
			m.move(moveNamed("wait for a message"), nil) // the interesting states have one
			bad := -1
			for d, n := range seq {
				if !m.move(n, nil) {
					bad = d
					break
				}
				m.runAll()
			}
			m.over()
			steps += m.steps
			if t.Failed() {
				t.Fatalf("moves %s", sequence(seq))
			}
			if !advance(seq, bad) {
				break
			}
		}
		t.Logf("%d moves", steps)
	})
}

// advance makes seq the next sequence; one whose move at bad (if not below 0) was impossible has no
// continuations. false: there is none.
func advance(seq []int, bad int) bool {
	d := len(seq) - 1
	if bad >= 0 {
		d = bad
	}
	for clear(seq[d+1:]); d >= 0; d-- {
		if seq[d]++; seq[d] < len(moves) {
			return true
		}
		seq[d] = 0
	}
	return false
}

func sequence(seq []int) (s []string) {
	for _, n := range seq {
		s = append(s, moves[n].name)
	}
	return s
}

// TestInboxInterleavings makes 50,000 random moves (10^6 with TARN_LONG=1), a quarter of them while goroutines that an earlier one woke may
// still run.
func TestInboxInterleavings(t *testing.T) {
	steps := 50_000
	if os.Getenv("TARN_LONG") != "" {
		steps = 1_000_000
	}
	stream := messagesOf(0, 3, 70, 33_000, 1, 40_000, 2)
	for seed := uint64(0); steps > 0; seed++ {
		synctest.Test(t, func(t *testing.T) {
			pool := uncheckedPool(t)
			r := rand.New(rand.NewPCG(seed, 2))
			for range 500 {
				m := newInboxModel(t, pool, stream)
				for range 2 + r.IntN(60) {
					n := r.IntN(len(moves))
					if name := moves[n].name; (name == "fail" || name == "close" || name == "finish") && r.IntN(8) > 0 {
						continue // mostly, it continues
					}
					if m.move(n, r) && r.IntN(4) > 0 {
						m.runAll()
					}
				}
				m.runAll()
				m.over()
				steps -= m.steps
				if t.Failed() {
					break
				}
			}
		})
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// A request that arrives in two pieces is gathered as it arrives, before its handler starts: a handler would have to copy it once more.
func TestInboxGathersOnlyMessage(t *testing.T) {
	pool := tarntest.NewPool(t)
	stream := messagesOf(16<<10 + 8)
	for _, first := range []int{3000, 8000, 16 << 10} {
		i := inbox{limit: modelLimit, mode: onlyOne}
		i.mu.Lock()
		i.put(pool.Copy(stream[:first]), pool)
		i.put(pool.Copy(stream[first:]), pool)
		i.finish(io.EOF)
		r := i.only()
		i.mu.Unlock()
		if r.err != nil || r.msg.Chain != nil || !bytes.Equal(r.msg.Buf.Bytes(), stream[message.PrefixLen:]) {
			t.Errorf("%d bytes and the rest: %v, in pieces: %v", first, r.err, r.msg.Chain != nil)
		}
		r.msg.Free()
		i.close()
	}
}
