package h2

import "testing"

// TestTransitions checks every cell of the table against what RFC 9113 section 5.1
// and the rules of this package ask for.
func TestTransitions(t *testing.T) {
	has := func(tr transition, e effect) bool { return tr.do&e != 0 }
	for side := range side(2) {
		for from := range states {
			for ev := range events {
				tr := transitions[side][from][ev]
				bad := func(what string) { t.Errorf("side %d, state %d, event %d → %+v: %s", side, from, ev, tr, what) }
				unreachable := side == server && from == halfClosedLocal
				if from == closed || unreachable {
					if tr != (transition{closed, 0}) {
						bad("a closed stream changes")
					}
					continue
				}
				if side == server && ev == beyondGoAway {
					if tr != (transition{from, 0}) {
						bad("a server's stream is refused by GOAWAY")
					}
					continue
				}
				early := ev != sendEnd && ev != recvEnd
				if early && tr.to != closed {
					bad("does not end the stream")
				}
				if want := early && ev != sendReset; has(tr, tellUser) != want {
					bad("tellUser")
				}
				first := side == server && from == open && ev == sendEnd
				if want := ev == sendReset || ev == peerFault || first; has(tr, resetPeer) != want {
					bad("resetPeer")
				}
				both := from == halfClosedLocal && ev == recvEnd || from == halfClosedRemote && ev == sendEnd || first
				if has(tr, inOrder) != both || both && tr.to != closed {
					bad("inOrder")
				}
				if want := tr.to == closed && (side == client || ev == sendEnd); has(tr, uncounts) != want {
					bad("uncounts")
				}
				switch {
				case from == open && ev == recvEnd && tr.to != halfClosedRemote,
					from == open && ev == sendEnd && side == client && tr.to != halfClosedLocal,
					from == halfClosedLocal && ev == sendEnd && tr.to != from,
					from == halfClosedRemote && ev == recvEnd && tr.to != from:
					bad("another state")
				}
			}
		}
	}
}
