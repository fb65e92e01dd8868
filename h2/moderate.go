package h2

import (
	"runtime"
	"time"
)

const (
	// moderateFrom is how many streams must be open for reads to be moderated.
	moderateFrom = 16
	// quickRead is how soon reads follow each other that are moderated.
	quickRead = 200 * time.Microsecond
	// goodRead is how many frames are worth a read without waiting for more.
	goodRead = 16
	// readDelay is how long a moderated read waits. The system adds up to 50 µs (its
	// timer slack).
	readDelay = 20 * time.Microsecond
)

// moderate waits before Run reads again, if reads follow each other quickly and bring few
// frames each; see Config.ReadModeration. Nothing that was received waits meanwhile: it
// is called after that was delivered, and when what the callbacks queued was sent.
func (c *Conn) moderate() {
	now := time.Now()
	wait := moderated(now.Sub(c.in.paused), c.in.frames)
	c.in.frames = 0
	if c.in.paused = now; !wait {
		return
	}
	runtime.Gosched() // those who were called back may send
	sleep(readDelay)
	c.in.paused = time.Now()
}

// moderated reports whether the next read waits, when the last one brought frames and the one
// before it was made that long ago.
func moderated(since time.Duration, frames int) bool { return since < quickRead && frames < goodRead }
