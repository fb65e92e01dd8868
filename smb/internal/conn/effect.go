package conn

// Effect is what a request does to a file on the server: it changes its data, length or name, or opens it. If the caller of the
// request returns because its context has ended, the server may still carry the request out, and possibly after requests that are sent
// later: it may work on several at once.
type Effect interface {
	// Lasts reports whether the effect outlasts the session, as a change does.
	Lasts() bool
	// GivenUp is called when the caller returns before the server has answered. It must not block: a lock of the connection is held.
	GivenUp()
	// Answered is called once after GivenUp: when the answer has come, and Call.Undo has run, or when the connection has ended.
	Answered()
}

// giveUp records that the caller of cl has returned.
func (cl *Call) giveUp() {
	if cl.Effect != nil && !cl.givenUp {
		cl.givenUp = true
		cl.Effect.GivenUp()
	}
}

// settle ends what giveUp has begun, if it has.
func (cl *Call) settle() {
	if cl.givenUp {
		cl.givenUp = false
		cl.Effect.Answered()
	}
}

// LostChange reports whether the server had not answered a request with a lasting effect when the connection ended. It waits for the
// end of the connection.
func (c *Conn) LostChange() bool {
	<-c.dead
	return c.lostChange
}
