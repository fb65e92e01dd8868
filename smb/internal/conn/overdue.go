package conn

import (
	"errors"
	"math"
	"os"
	"time"
)

// ErrUnanswered is matched, besides ErrLost, by the error of a request that the server has neither answered nor acknowledged within
// Config.RequestTimeout. It matches os.ErrDeadlineExceeded.
var ErrUnanswered error = unansweredError{}

type unansweredError struct{}

func (unansweredError) Error() string        { return "the server has not answered a request" }
func (unansweredError) Timeout() bool        { return true }
func (unansweredError) Is(target error) bool { return target == os.ErrDeadlineExceeded }

var (
	errUnanswered error = &connError{ErrLost, ErrUnanswered}
	// errOtherUnanswered is the error of the other requests of the connection.
	errOtherUnanswered error = &connError{ErrLost, errors.New("closed, as the server has not answered another request")}
)

// maxAge is how many rounds of watchRequests fit into the time limit of a request. A request is overdue at most one round after its limit.
const maxAge = 8

// longFrame is the length in bytes from which on the receiving of a frame may take long.
const longFrame = 64 << 10

// overdue reports whether the time limit of cl has passed. ring.mu is held.
func (cl *Call) overdue() bool { return cl.age > maxAge }

// watchRequests ends the connection when a request is overdue: when for the time limit nothing has answered it, or a request that was
// sent before it, or at about the same time. Servers answer in order, more or less, so that on a slow network the last of many
// requests is answered late; but a request that is left out does not wait for as long as later ones are answered. It counts rounds, so that
// no request needs a timer or a time of its own. ECHO does not count. While a long frame arrives, no other reply can arrive.
func (c *Conn) watchRequests(limit time.Duration) {
	round := time.NewTicker(max(limit/maxAge, 1))
	defer round.Stop()
	for {
		select {
		case <-c.dead:
			return
		case <-round.C:
		}
		if c.arriving.Load() && c.silence() < 2*limit {
			continue
		}
		if c.ageRequests() {
			c.fail(errOtherUnanswered)
			return
		}
	}
}

// ageRequests makes one round: it counts it for each request without a reply, and reports whether one is overdue.
func (c *Conn) ageRequests() (overdue bool) {
	r := &c.ring
	r.mu.Lock()
	defer r.mu.Unlock()
	answered := r.answeredRound
	r.answeredRound = math.MaxUint64
	r.round++
	age := func(cl *Call) {
		switch {
		case cl == nil || cl.untimed || cl.acknowledged || !cl.sent.Load():
		case answered <= cl.round:
			cl.age = 1
		default:
			cl.age++
			overdue = overdue || cl.overdue()
		}
	}
	for _, cl := range r.slots {
		age(cl)
	}
	for _, cl := range r.overflow {
		age(cl)
	}
	return overdue
}
