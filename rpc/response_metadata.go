package rpc

import (
	"sync"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// responseMetadata is the metadata that a handler sets for its response's header and trailer, in any
// protocol.
type responseMetadata struct {
	sendMu     sync.Mutex // held while anything is sent
	header     metadata.MD
	trailer    metadata.MD
	sentHeader bool
	sealed     bool // SendHeader has been called for a header that is sent later
	released   bool // the handler has returned: nothing more is sent
}

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
	if r.sentHeader || r.sealed || r.released {
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
	case r.sentHeader, r.sealed:
		return errHeaderSent
	}
	if len(md) > 0 {
		r.header = metadata.Join(r.header, md)
	}
	return nil
}
