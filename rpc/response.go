package rpc

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// responseShape is the content of a header or trailer that does not differ from call to call. The connection
// caches it with the header list.
type responseShape struct {
	httpStatus  int
	contentType string
	grpc        bool // the content type is gRPC's
	encoding    string
	fields      []h2.Field
	ok          bool           // grpc-status is 0 and nothing else is set
	bad         *status.Status // of binary metadata that is not base64; or nil
}

func responseShapeOf(h *h2.Header) *responseShape {
	memo := h.Memo
	if varies(h.Extra) {
		memo = nil
	}
	if memo != nil {
		if sh, ok := (*memo).(*responseShape); ok {
			return sh
		}
	}
	sh := &responseShape{httpStatus: h.Status, fields: h.Fields}
	if ct, ok := find("content-type", h.Fields, h.Extra); ok {
		sh.contentType = ct
		_, sh.grpc = header.Subtype(ct)
	}
	if enc, _ := find("grpc-encoding", h.Fields, h.Extra); !identity(enc) {
		sh.encoding = enc
	}
	st, ok := find("grpc-status", h.Fields, nil)
	sh.ok = ok && st == "0"
	sh.bad = malformed(h.Fields)
	if memo != nil {
		*memo = sh
	}
	return sh
}

// varies reports whether fields that belong to a shape came among those that differ from call to call: then
// it must not be cached.
func varies(extra []h2.Field) bool {
	for i := range extra {
		switch extra[i].Name {
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

// notGRPC returns the status of a response that has no status of gRPC, or not gRPC's content type; nil if its HTTP status and
// content type are those of gRPC.
func (sh *responseShape) notGRPC() *status.Status {
	if sh.httpStatus == 200 && sh.grpc {
		return nil
	}
	msg := fmt.Sprintf("unexpected HTTP status code received from server: %d (%s)", sh.httpStatus, http.StatusText(sh.httpStatus))
	switch {
	case sh.grpc:
	case sh.contentType == "":
		msg += "; malformed header: missing HTTP content-type"
	default:
		msg += "; transport: received unexpected content-type " + strconv.Quote(sh.contentType)
	}
	return status.New(header.FromHTTP(sh.httpStatus), msg)
}

// hasStatus reports whether a header list contains grpc-status.
func (sh *responseShape) hasStatus(extra []h2.Field) bool {
	_, ok := find("grpc-status", sh.fields, extra)
	return ok
}

// ending says which kind of header list holds a status.
type ending uint8

const (
	endTrailers  ending = iota // trailers after a header
	onlyTrailers               // a header list that is the whole response
)

// status returns the status; nil is OK.
func (sh *responseShape) status(extra []h2.Field, e ending) *status.Status {
	if sh.ok && (e == endTrailers || sh.httpStatus == 200) {
		return nil
	}
	text, ok := find("grpc-status", sh.fields, extra)
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
		return status.Newf(codes.Unknown, "transport: malformed grpc-status %q", text)
	}
	msg, _ := find("grpc-message", sh.fields, extra)
	st := status.New(code, header.DecodeMessage(msg))
	if code == codes.OK {
		return nil
	}
	if d, ok := find(detailsKey, sh.fields, extra); ok {
		return withDetails(st, d)
	}
	return st
}

// withDetails is the status in grpc-status-details-bin. As in grpc-go, one that contradicts grpc-status is
// the server's error, and one that is not a google.rpc.Status is ignored. That field is base64 has been checked, as of all
// binary metadata.
func withDetails(st *status.Status, field string) *status.Status {
	vs, err := header.AppendValues(nil, detailsKey, field)
	p := st.Proto()
	switch {
	case err != nil || p == nil || len(vs) != 1 || proto.Unmarshal([]byte(vs[0]), p) != nil:
		return st
	case codes.Code(p.Code) != st.Code():
		return status.Newf(codes.Internal, "%s mismatch: grpc-status=%v, grpc-message=%q, %[1]s=%+[4]v", detailsKey, st.Code(), st.Message(), p)
	}
	return status.FromProto(p)
}

// malformed returns the status of a response whose binary metadata is not base64.
func malformed(lists ...[]h2.Field) *status.Status {
	for _, fs := range lists {
		for i := range fs {
			if !header.IsBin(fs[i].Name) {
				continue
			}
			if _, err := header.AppendValues(nil, fs[i].Name, fs[i].Value); err != nil {
				return status.Newf(codes.Internal, "transport: malformed %s: %v", fs[i].Name, err)
			}
		}
	}
	return nil
}

// metadataOf collects the metadata for the application from a header or trailer. A response with binary
// values that are not base64 has failed, and they are left out here.
func (sh *responseShape) metadataOf(extra []h2.Field) metadata.MD {
	if sh == nil {
		return nil
	}
	md := make(metadata.MD, len(sh.fields)+len(extra))
	for _, fs := range [...][]h2.Field{sh.fields, extra} {
		for i := range fs {
			if err := addMetadata(md, fs[i].Name, fs[i].Value); err != nil {
				continue
			}
		}
	}
	return md
}

// hasMetadata reports whether a header or trailer has fields for the application.
func (sh *responseShape) hasMetadata(extra []h2.Field) bool {
	forApplication := func(f h2.Field) bool { return header.ReceivedAsMetadata(f.Name) }
	return slices.ContainsFunc(sh.fields, forApplication) || slices.ContainsFunc(extra, forApplication)
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
