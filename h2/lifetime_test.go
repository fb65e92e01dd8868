package h2

import (
	"errors"
	"testing"
	"time"
)

// TestLifetime: every event in every life, by what the events mean.
func TestLifetime(t *testing.T) {
	rule := func(s side, from life, ev lifeEvent) (to life, b bound) {
		switch {
		case from == dead, s == client && from == announced: // nothing happens, and no client is announced
		case ev == socketClosed:
			return dead, unbounded
		case ev == shutdownCalled && from == alive && s == server:
			return announced, unbounded
		case (ev == shutdownCalled || ev == goAwayReceived) && from == alive && s == client,
			ev == lastGoAwaySent && from == announced:
			return draining, unbounded
		case ev == streamsEnded && from == draining:
			return closing, sendBound
		case ev == aborted:
			return max(from, closing), abortBound
		case ev == allSent && from == closing:
			return shut, closeBound
		case ev == writeFailed && from < shut, ev == peerSilent && from < closing:
			return shut, abortBound
		case ev == readFailed && from < closing:
			return shut, unbounded
		}
		return from, unbounded
	}
	first, why := errors.New("first"), errors.New("why")
	for _, s := range []side{client, server} {
		for from := range lives {
			for ev := range lifeEvents {
				for had := range abortBound + 1 {
					l := &lifetime{life: from, bound: had}
					if from >= closing {
						l.why = first
					}
					wantWhy := l.why
					to, b := rule(s, from, ev)
					changed := l.advance(s, ev, why)
					if to >= closing && from < closing && to < dead || ev == readFailed && from >= closing && from < dead {
						wantWhy = why
					}
					if l.life != to || changed != (to != from) || l.bound != max(had, b) || l.why != wantWhy {
						t.Errorf("side %d, life %d, bound %d, event %d: life %d, bound %d, %v; want %d, %d, %v", s, from, had, ev, l.life, l.bound, l.why, to, max(had, b), wantWhy)
					}
				}
			}
		}
	}
}

// TestNextLimit: how long a connection that ends is read on when its deadline is met.
func TestNextLimit(t *testing.T) {
	const s = instant(time.Second)
	for _, x := range []struct {
		name string
		l    *lifetime
		took instant
		want instant // now is 100 s
	}{
		{"sends, and the peer takes", &lifetime{bound: sendBound}, 100 * s, 120 * s},
		{"sends, and the peer takes nothing", &lifetime{bound: sendBound, heard: 99 * s}, 0, 100 * s},
		{"has sent, and the peer takes", &lifetime{bound: closeBound, last: 104 * s}, 100 * s, 101 * s},
		{"has sent, and the peer sends", &lifetime{bound: closeBound, last: 104 * s, heard: 99*s + s/2}, 0, 100*s + s/2},
		{"has sent, and the peer has sent", &lifetime{bound: closeBound, last: 104 * s, heard: 98 * s}, 0, 99 * s},
		{"has sent, and the peer takes for long", &lifetime{bound: closeBound, last: 100*s + 1}, 100 * s, 100*s + 1},
		{"has sent, and the peer does nothing", &lifetime{bound: closeBound, last: 104 * s}, 0, 100 * s},
		{"is aborted", &lifetime{bound: abortBound, last: 104 * s, heard: 100 * s}, 100 * s, 100 * s},
	} {
		if got := x.l.nextLimit(100*s, x.took); got != x.want {
			t.Errorf("%s: until %v, not %v", x.name, time.Duration(got), time.Duration(x.want))
		}
	}
}

// TestKeepaliveSteps: what keepalive does when its timer has run out, at 100 s with a Time of 10 s.
func TestKeepaliveSteps(t *testing.T) {
	const s = instant(time.Second)
	type result struct {
		do    keepaliveStep
		after time.Duration
	}
	for _, x := range []struct {
		name            string
		asked, received instant
		timeout         time.Duration
		streams         int
		without         Permission
		want            result
	}{
		{"something has come", 0, 97 * s, time.Minute, 1, Deny, result{askLater, 7 * time.Second}},
		{"silent", 0, 90 * s, time.Minute, 1, Deny, result{sendPing, 10 * time.Second}},
		{"silent, short timeout", 0, 90 * s, time.Second, 1, Deny, result{sendPing, time.Second}},
		{"silent without streams", 0, 90 * s, time.Second, 0, Deny, result{askLater, 10 * time.Second}},
		{"silent without streams, permitted", 0, 90 * s, time.Second, 0, Permit, result{sendPing, time.Second}},
		{"asked", 95 * s, 85 * s, 20 * time.Second, 1, Deny, result{askLater, 15 * time.Second}},
		{"asked, and the streams have ended", 95 * s, 85 * s, 20 * time.Second, 0, Deny, result{askLater, 15 * time.Second}},
		{"answered", 80 * s, 81 * s, 20 * time.Second, 1, Deny, result{sendPing, 10 * time.Second}},
		{"no answer", 80 * s, 70 * s, 20 * time.Second, 1, Deny, result{breakSilent, 0}},
	} {
		p := silence{asked: x.asked}
		p.received.Store(int64(x.received))
		do, after := p.next(100*s, &Keepalive{Time: 10 * time.Second, Timeout: x.timeout, WithoutStream: x.without}, x.streams)
		if got := (result{do, after}); got != x.want {
			t.Errorf("%s: %v, not %v", x.name, got, x.want)
		}
	}
}
