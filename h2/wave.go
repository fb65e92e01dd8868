package h2

// waveFrom is how many messages are a wave. For one alone a goroutine costs more than it saves.
const waveFrom = 2

// passing is the length in bytes up to which DATA is a short message.
const passing = 16 << 10

// A wave is what one read brings: short DATA frames on streams that stay open, each a message, to which the goroutines that the
// callbacks wake may reply. They would yield to each other before they send (gather), but a goroutine that yields is taken up at
// once by a processor that is idle, and that processor then sends replies one by one rather than help with the others.
// So Run starts a goroutine that sends the replies. Go's scheduler runs it on the same processor after the goroutines that were
// woken there before it, while idle processors take over the first of these; they leave the sending to it. It is
// started before the callback of the last message, because what was made runnable last runs first.

// beginWave is called before the callback for a short DATA frame whose n bytes are buffered and do not end the stream. It starts the
// goroutine if that is the last frame that is buffered. c.mu is held.
func (c *Conn) beginWave(n int) {
	c.in.wave++
	s := &c.send
	if c.in.wave < waveFrom || c.in.r.Buffered() >= n+frameHeaderLen || s.left || c.batch != nil || s.w == nil || !s.w.CanTry() {
		return // a BatchHandler wakes later, and a writer goroutine gathers by itself
	}
	s.left = true
	go s.flush()
}

// flushLeft sends what Writes have left to it.
func (c *Conn) flushLeft() {
	c.mu.Lock()
	c.send.left = false
	c.kick()
	c.mu.Unlock()
}

// kickOrLeave is kick, unless flushLeft is about to run and not much is queued. c.mu is held, but not throughout.
func (c *Conn) kickOrLeave() {
	if !c.send.left || c.queued() >= goodBatch {
		c.kick()
	}
}
