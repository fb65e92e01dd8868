package rpc

import (
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// responseMetadata is the metadata that a handler sets for its response's header and trailer, in any
// protocol.
type responseMetadata struct {
	sendMu  sync.Mutex // held while anything is sent. It guards what follows
	header  metadata.MD
	trailer metadata.MD

	aborted  codes.Code // of the status that was sent because SendMsg or RecvMsg failed; OK: none
	state    headerState
	released bool // the handler has returned: nothing more is sent

	ended  bool // runner.report has been called; the call's own goroutine's
	gotOne bool // a message has been received; runner.recvMu guards it
}

// headerState says whether a response's header has been written.
type headerState uint8

const (
	headerPending headerState = iota
	headerSealed              // SendHeader has been called for a header that is written with the status
	headerWritten
)

// SetHeader adds md to the header, which is sent with the first message or the status. It fails once the
// header has been sent.
func (r *responseMetadata) SetHeader(md metadata.MD) error {
	if len(md) == 0 {
		return nil
	}
	if err := checkMetadata(md); err != nil {
		return err
	}
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	if r.state != headerPending || r.released {
		return errHeaderSent
	}
	r.header = metadata.Join(r.header, md)
	return nil
}

// SetTrailer adds md to the metadata sent with the status. Metadata that may not be sent is ignored.
func (r *responseMetadata) SetTrailer(md metadata.MD) {
	if len(md) == 0 || checkMetadata(md) != nil {
		return
	}
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	r.trailer = metadata.Join(r.trailer, md)
}

// replaceDetails removes the details of another call's status, which a handler that passes on a call has in its trailer, if st has its
// own: a client that gets both may use neither. sendMu is held.
func (r *responseMetadata) replaceDetails(st *status.Status) {
	if len(r.trailer[detailsKey]) > 0 && len(st.Proto().GetDetails()) > 0 {
		delete(r.trailer, detailsKey) // SetTrailer made a copy
	}
}

// lastHeader adds md to a header that is sent now: it fails when that has been sent. sendMu is held, and md
// has been checked.
func (r *responseMetadata) lastHeader(md metadata.MD) error {
	switch {
	case r.released:
		return errCallOver
	case r.state != headerPending:
		return errHeaderSent
	}
	if len(md) > 0 {
		r.header = metadata.Join(r.header, md)
	}
	return nil
}
