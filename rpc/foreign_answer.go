package rpc

import (
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"google.golang.org/grpc/status"
)

// foreignAnswer is a response that is not gRPC's, such as a proxy's page of an error, until enough of it has come.
type foreignAnswer struct {
	st   *status.Status
	body []byte      // its beginning
	late *time.Timer // ends the wait for the rest
}

const (
	foreignMost = 1 << 10 // of a body, in bytes, as in grpc-go
	// foreignWait is how long the attempt waits for them. grpc-go waits until the call's deadline.
	foreignWait = time.Second
)

// beginForeign begins to collect the body of a response that is not gRPC's, whose status is st without it. mu is held.
func (a *grpcAttempt) beginForeign(s *h2.Stream, st *status.Status) {
	a.foreign = &foreignAnswer{st: st, late: time.AfterFunc(foreignWait, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if !a.closed { // s has not been released
			a.finishForeign(s)
		}
	})}
}

// collectForeign takes ownership of b, the next bytes of the body. mu is held, and the attempt has not ended.
func (a *grpcAttempt) collectForeign(s *h2.Stream, b tarn.Buffer, e h2.Ending) {
	f := a.foreign
	f.body = append(f.body, b.Bytes()[:min(b.Len(), foreignMost-len(f.body))]...)
	b.Free()
	if len(f.body) == foreignMost || e == h2.End {
		a.finishForeign(s)
	}
}

// finishForeign ends the attempt with a status whose message has what has come of the body. mu is held.
func (a *grpcAttempt) finishForeign(s *h2.Stream) {
	a.foreign.late.Stop()
	st := a.foreign.st
	a.answer(s, status.Newf(st.Code(), "%s\ndata: %q", st.Message(), a.foreign.body))
}
