package wire

import (
	"slices"
	"sync/atomic"

	"github.com/tarn-go/tarn"
)

// markEvery is how far apart the marks of a batch are at least, in bytes, so that a batch of many small frames has few.
const markEvery = 32 << 10

// firstMarks is for how many marks there is room when a batch gets its first one.
const firstMarks = 8

// Mark says that other bytes may stand here, between what b holds and what is appended later, as between two frames. Of
// marks that are less than 32 KiB apart the batch keeps the first.
func (b *Batch) Mark() {
	at := b.sent + b.size
	last := b.front
	if n := len(b.marks); n > 0 {
		last = b.marks[n-1]
	}
	if at-last < markEvery {
		return
	}
	if b.marks == nil {
		b.marks = make([]int, 0, firstMarks)
	}
	b.marks = append(b.marks, at)
}

// Insert moves what o holds into b: to its beginning if nothing has been sent, else to the first mark that has not
// been sent, or to the end if there is none. What is inserted later at the same place follows. Nothing may be sent of b
// meanwhile.
func (b *Batch) Insert(o *Batch) {
	n := o.size
	if n == 0 {
		return
	}
	at := b.front
	if at < b.sent {
		b.marks = slices.DeleteFunc(b.marks, func(m int) bool { return m < b.sent })
		at = b.sent + b.size
		if len(b.marks) > 0 {
			at = b.marks[0]
		}
	}
	b.seal()
	i, off := b.head, at-b.sent
	for off > 0 && off >= len(b.vec[i]) {
		off -= len(b.vec[i])
		i++
	}
	if off > 0 {
		p := b.vec[i]
		b.vec[i] = p[:off:off]
		i++
		b.vec = slices.Insert(b.vec, i, p[off:])
	}
	b.vec = slices.Insert(b.vec, i, o.pending()...)
	b.held = append(b.held, o.held...)
	if o.mem != nil {
		b.held = append(b.held, o.tail)
		o.tail = tarn.Buffer{}
	}
	b.size += n
	if at == b.front {
		b.front += n
	}
	for i := range b.marks {
		if b.marks[i] >= at {
			b.marks[i] += n
		}
	}
	o.reset()
}

// partBytes is the least that SendUntil sends between two looks at stop: whole records, so that there are no more of them than without stop.
const partBytes = 4 * recordSize

// SendUntil is Send that returns before everything is sent, with Unsent, once stop is true: it looks after each quarter of b, or 64 KiB where
// that is more. Otherwise b is cleared and sent is Sent.
func (w *Writer) SendUntil(b *Batch, stop *atomic.Bool) (sent Outcome, err error) {
	part := max(partBytes, b.Len()/4/recordSize*recordSize)
	for w.err == nil && b.Len() > part {
		if stop.Load() {
			return Unsent, nil
		}
		if w.err = w.sendPart(b, part); w.err != nil {
			b.Clear()
			return Sent, w.err
		}
	}
	if stop.Load() && w.err == nil && b.Len() > 0 {
		return Unsent, nil
	}
	return Sent, w.Send(b)
}

// sendPart sends the first n bytes of b, which holds more.
func (w *Writer) sendPart(b *Batch, n int) error {
	vec := b.pending()
	i, end := 0, n
	for end > len(vec[i]) {
		end -= len(vec[i])
		i++
	}
	last := vec[i]
	vec[i] = last[:end]
	if err := w.sendVec(vec[:i+1]); err != nil {
		return err
	}
	clear(vec[:i]) // sending may have consumed them
	vec[i] = last[end:]
	b.head += i
	b.size -= n
	b.sent += n
	return nil
}
