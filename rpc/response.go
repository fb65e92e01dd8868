package rpc

import (
	"strconv"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// responseShape is what a header or trailer says that does not differ from call
// to call. The connection remembers it with the header list.
type responseShape struct {
	httpStatus  int
	contentType string
	grpc        bool // the content type is gRPC's
	encoding    string
	fields      []h2.Field
	ok          bool // grpc-status is 0 and there is nothing else to know
}

func responseShapeOf(h *h2.Header) *responseShape {
	memo := h.Memo
	if varies(h.More) {
		memo = nil
	}
	if memo != nil {
		if sh, ok := (*memo).(*responseShape); ok {
			return sh
		}
	}
	sh := &responseShape{httpStatus: h.Status, fields: h.Fields}
	if ct, ok := find("content-type", h.Fields, h.More); ok {
		sh.contentType = ct
		_, sh.grpc = header.Subtype(ct)
	}
	if enc, _ := find("grpc-encoding", h.Fields, h.More); !identity(enc) {
		sh.encoding = enc
	}
	st, ok := find("grpc-status", h.Fields, nil)
	sh.ok = ok && st == "0"
	if memo != nil {
		*memo = sh
	}
	return sh
}

// varies reports whether fields that a shape is made of came among those that
// differ from call to call: then it must not be remembered.
func varies(more []h2.Field) bool {
	for i := range more {
		switch more[i].Name {
		case "content-type", "grpc-encoding":
			return true
		}
	}
	return false
}

func find(name string, lists ...[]h2.Field) (string, bool) {
	for _, fs := range lists {
		for i := range fs {
			if fs[i].Name == name {
				return fs[i].Value, true
			}
		}
	}
	return "", false
}

// notGRPC returns the status of a response that is not gRPC's.
func (sh *responseShape) notGRPC() *status.Status {
	if sh.httpStatus == 200 && sh.grpc {
		return nil
	}
	code := header.FromHTTP(sh.httpStatus)
	msg := "unexpected HTTP status code received from server: " + strconv.Itoa(sh.httpStatus)
	if !sh.grpc {
		msg += "; transport: received unexpected content-type " + strconv.Quote(sh.contentType)
	}
	return status.New(code, msg)
}

// ending says in what a status came.
type ending uint8

const (
	endTrailers  ending = iota // trailers after a header
	onlyTrailers               // a header that is everything
)

// status reads the status; nil is OK.
func (sh *responseShape) status(more []h2.Field, e ending) *status.Status {
	if sh.ok && (e == endTrailers || sh.httpStatus == 200) {
		return nil
	}
	text, ok := find("grpc-status", sh.fields, more)
	if e == onlyTrailers && (!ok || !sh.grpc) {
		if st := sh.notGRPC(); st != nil {
			return st
		}
	}
	if !ok {
		return status.New(codes.Unknown, "rpc: the server ended the call without grpc-status")
	}
	code, ok := header.ParseStatus(text)
	if !ok {
		return status.Newf(codes.Internal, "transport: malformed grpc-status %q", text)
	}
	msg, _ := find("grpc-message", sh.fields, more)
	st := status.New(code, header.DecodeMessage(msg))
	if d, ok := find(detailsKey, sh.fields, more); ok {
		st = withDetails(st, d)
	}
	if code == codes.OK {
		return nil
	}
	return st
}

// withDetails is the status that grpc-status-details-bin carries; st when it
// cannot be read or contradicts grpc-status.
func withDetails(st *status.Status, field string) *status.Status {
	vs, err := header.AppendValues(nil, detailsKey, field)
	if err != nil || len(vs) == 0 {
		return st
	}
	p := st.Proto()
	if p == nil || proto.Unmarshal([]byte(vs[0]), p) != nil || codes.Code(p.Code) != st.Code() {
		return st
	}
	return status.FromProto(p)
}

// metadataOf gathers what the application is shown of a header or trailer.
// Binary values that are not base64 are left out.
func (sh *responseShape) metadataOf(more []h2.Field) metadata.MD {
	if sh == nil {
		return nil
	}
	md := make(metadata.MD, len(sh.fields)+len(more))
	for _, fs := range [...][]h2.Field{sh.fields, more} {
		for i := range fs {
			if err := addMetadata(md, fs[i].Name, fs[i].Value); err != nil {
				continue
			}
		}
	}
	return md
}

// streamErrorStatus maps a stream error.
func streamErrorStatus(e *h2.StreamError) (*status.Status, progress) {
	if e.Fault == h2.Peer {
		return status.New(codes.Internal, "the server broke the protocol: "+e.Error()), maybeProcessed
	}
	seen := maybeProcessed
	if e.Code == h2.RefusedStream {
		seen = notProcessed
	}
	return status.Newf(header.FromReset(uint32(e.Code)), "stream terminated by RST_STREAM with error code: %v", e.Code), seen
}
