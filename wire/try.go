package wire

import "errors"

var errShortWrite = errors.New("wire: the connection wrote nothing and gave no error")

// TrySend sends as much of b as the connection takes without waiting. When that
// is everything, or an error ends it, b is cleared and sent is Sent; otherwise it
// is Unsent and the rest of b is for Send (or another TrySend). On connections
// other than plain TCP and Unix ones, and off Linux, nothing can be tried and
// TrySend returns Unsent at once.
func (w *Writer) TrySend(b *Batch) (sent Outcome, err error) {
	switch {
	case w.err != nil:
		b.Clear()
		return Sent, w.err
	case b.Len() == 0:
		b.Clear()
		return Sent, nil
	case w.raw == nil:
		return Unsent, nil
	}
	w.try, w.terr = b, nil
	err = w.raw.Write(w.step)
	w.try = nil
	if err == nil {
		err = w.terr
	}
	if err == nil && b.Len() > 0 {
		return Unsent, nil
	}
	w.err = err
	b.Clear()
	return Sent, err
}

// Outcome says what TrySend did with a batch.
type Outcome uint8

const (
	Unsent Outcome = iota // bytes are left in the batch
	Sent                  // the batch was sent or failed, and is empty
)

// CanTry reports whether TrySend ever sends anything on w's connection.
func (w *Writer) CanTry() bool { return w.raw != nil }
