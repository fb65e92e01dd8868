package binlog

import (
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	pb "google.golang.org/grpc/binarylog/grpc_binarylog_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Event makes the entry of an event that has no payload.
func Event(typ pb.GrpcLogEntry_EventType) *pb.GrpcLogEntry { return &pb.GrpcLogEntry{Type: typ} }

// ClientHeader makes the entry of a request's header. A timeout of 0 or less means that
// the call has no deadline.
func ClientHeader(l Limits, md metadata.MD, method, authority string, timeout time.Duration, peer net.Addr) *pb.GrpcLogEntry {
	h := &pb.ClientHeader{Metadata: &pb.Metadata{}, MethodName: text(method), Authority: text(authority)}
	if timeout > 0 {
		h.Timeout = durationpb.New(timeout)
	}
	e := Event(pb.GrpcLogEntry_EVENT_TYPE_CLIENT_HEADER)
	e.Payload = &pb.GrpcLogEntry_ClientHeader{ClientHeader: h}
	e.Peer = address(peer)
	h.Metadata.Entry, e.PayloadTruncated = entries(l, md)
	return e
}

// text returns s, which may be a peer's, in a form that an entry's encoding takes.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// ServerHeader makes the entry of a response's header.
func ServerHeader(l Limits, md metadata.MD, peer net.Addr) *pb.GrpcLogEntry {
	h := &pb.ServerHeader{Metadata: &pb.Metadata{}}
	e := Event(pb.GrpcLogEntry_EVENT_TYPE_SERVER_HEADER)
	e.Payload = &pb.GrpcLogEntry_ServerHeader{ServerHeader: h}
	e.Peer = address(peer)
	h.Metadata.Entry, e.PayloadTruncated = entries(l, md)
	return e
}

// Message makes the entry of a message. m has its length without compression, and as many of its bytes as the limit permits.
func Message(typ pb.GrpcLogEntry_EventType, m *pb.Message) *pb.GrpcLogEntry {
	e := Event(typ)
	e.Payload = &pb.GrpcLogEntry_Message{Message: m}
	e.PayloadTruncated = uint64(len(m.Data)) < uint64(m.Length)
	return e
}

// ServerTrailer makes the entry of a call's status and trailer, to which no limit applies.
func ServerTrailer(md metadata.MD, st *status.Status, peer net.Addr) *pb.GrpcLogEntry {
	t := &pb.Trailer{Metadata: &pb.Metadata{}, StatusCode: uint32(st.Code()), StatusMessage: strings.Clone(text(st.Message()))} // of a lent request perhaps; sinks keep entries
	if p := st.Proto(); p != nil && len(p.Details) > 0 {
		p.Message = t.StatusMessage // of a copy
		if b, err := proto.Marshal(p); err == nil {
			t.StatusDetails = b
		}
	}
	t.Metadata.Entry, _ = entries(Limits{Header: Unlimited}, md)
	e := Event(pb.GrpcLogEntry_EVENT_TYPE_SERVER_TRAILER)
	e.Payload = &pb.GrpcLogEntry_Trailer{Trailer: t}
	e.Peer = address(peer)
	return e
}

// entries lists metadata by key, up to the limit. "grpc-trace-bin" does not count towards it (gRFC A16).
func entries(l Limits, md metadata.MD) (out []*pb.MetadataEntry, truncated bool) {
	left := l.Header
	for _, k := range slices.Sorted(maps.Keys(md)) {
		if omitted(k) {
			continue
		}
		for _, v := range md[k] {
			if n := uint64(len(k) + len(v)); k != "grpc-trace-bin" {
				if n > left {
					return out, true
				}
				if left != Unlimited {
					left -= n
				}
			}
			out = append(out, &pb.MetadataEntry{Key: k, Value: []byte(v)})
		}
	}
	return out, false
}

// omitted reports whether a key belongs to the transport.
func omitted(key string) bool {
	switch key {
	case "lb-token", ":path", ":authority", "content-encoding", "content-type", "user-agent", "te", "authorization":
		return true
	case "grpc-trace-bin":
		return false
	}
	return strings.HasPrefix(key, "grpc-")
}

func address(a net.Addr) *pb.Address {
	switch a := a.(type) {
	case nil:
		return nil
	case *net.TCPAddr:
		out := &pb.Address{Address: a.IP.String(), IpPort: uint32(a.Port)}
		switch {
		case a.IP.To4() != nil:
			out.Type = pb.Address_TYPE_IPV4
		case a.IP.To16() != nil:
			out.Type = pb.Address_TYPE_IPV6
		default:
			return &pb.Address{}
		}
		return out
	case *net.UnixAddr:
		return &pb.Address{Type: pb.Address_TYPE_UNIX, Address: a.String()}
	}
	return &pb.Address{}
}
