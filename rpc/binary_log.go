package rpc

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc/internal/binlog"
	"google.golang.org/grpc/binarylog"
	pb "google.golang.org/grpc/binarylog/grpc_binarylog_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// ErrBinaryLog is wrapped by the errors of NewCallLog, which are mistakes in its arguments.
var ErrBinaryLog = errors.New("rpc: bad binary log")

// CallLog writes calls to a sink: a binary log as gRFC A16 describes it, with the entries that grpc-go makes.
// Clients log each call once, however often it is tried. Messages are logged if they are protobuf's or raw
// (*tarn.Chain, *tarn.Buffer); the length of others is logged as 0. A server logs a call from its
// interceptors on: a unary request that cannot be decoded has no entry. A call that its client ends early has an entry of
// SERVER_TRAILER, in grpc-go that or one of CANCEL, depending on timing.
//
// A CallLog is safe for concurrent use, by several clients and servers too.
type CallLog struct {
	filter binlog.Filter
	sink   binarylog.Sink
	calls  atomic.Uint64
	failed atomic.Bool // an error of the sink has been reported
}

// NewCallLog makes a log of the methods that filter names, in the syntax of the environment variable
// GRPC_BINARY_LOG_FILTER: "*", "service/*", "service/method" and "-service/method" with commas between them,
// and limits in bytes as in "*{h:256;m:1024}". With an empty filter nothing is logged. The caller closes
// sink, after the clients and servers that use the log. grpc-go's binarylog.NewTempFileSink makes one; the
// sink of binarylog.SetSink is not accessible to this package.
func NewCallLog(filter string, sink binarylog.Sink) (*CallLog, error) {
	f, err := binlog.ParseFilter(filter)
	if err != nil {
		return nil, fmt.Errorf("%w: filter: %w", ErrBinaryLog, err)
	}
	if sink == nil {
		return nil, fmt.Errorf("%w: caller gave no sink", ErrBinaryLog)
	}
	return &CallLog{filter: f, sink: sink}, nil
}

// WithBinaryLog writes the client's calls to l. It sees them as the innermost interceptor.
func WithBinaryLog(l *CallLog) DialOption {
	return dialOption(func(o *dialOptions) { o.callLog = l })
}

// BinaryLog writes the server's calls to l. It sees them as the outermost interceptor.
func BinaryLog(l *CallLog) ServerOption {
	return serverOption(func(o *serverOptions) { o.callLog = l })
}

// filterVariable is the environment variable that makes grpc-go write a binary log.
const filterVariable = "GRPC_BINARY_LOG_FILTER"

// warnOfFilter warns when the environment asks for a log that the program does not configure.
func warnOfFilter(l *CallLog, option string) {
	if l == nil && os.Getenv(filterVariable) != "" {
		logger.Warningf("%s is set and has no effect: rpc writes a binary log with %s", filterVariable, option)
	}
}

// loggedCall writes the entries of one call.
type loggedCall struct {
	log    *CallLog
	limits binlog.Limits
	side   pb.GrpcLogEntry_Logger
	id     uint64

	mu     sync.Mutex
	seq    uint64
	header bool // the response's header has been logged
	half   bool // the end of the request has been logged
	over   bool
}

// call begins the log of a call; nil when its method is not logged.
func (l *CallLog) call(method string, side pb.GrpcLogEntry_Logger) *loggedCall {
	limits, ok := l.filter.Find(method)
	if !ok {
		return nil
	}
	return &loggedCall{log: l, limits: limits, side: side, id: l.calls.Add(1)}
}

// write writes e unless the call has ended.
func (c *loggedCall) write(e *pb.GrpcLogEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeLocked(e)
}

func (c *loggedCall) writeLocked(e *pb.GrpcLogEntry) {
	if c.over {
		return
	}
	c.seq++
	e.Timestamp, e.CallId, e.SequenceIdWithinCall, e.Logger = timestamppb.Now(), c.id, c.seq, c.side
	if err := c.log.sink.Write(e); err != nil && !c.log.failed.Swap(true) {
		logger.Warningf("the sink of a binary log fails (reported once): %v", err)
	}
}

// serverHeader writes the response's header, once.
func (c *loggedCall) serverHeader(md metadata.MD, peer net.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.header {
		c.header = true
		c.writeLocked(binlog.ServerHeader(c.limits, md, peer))
	}
}

// needsHeader reports whether the response's header has yet to be logged.
func (c *loggedCall) needsHeader() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.header && !c.over
}

// halfClose writes the request's end, once.
func (c *loggedCall) halfClose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.half {
		c.half = true
		c.writeLocked(binlog.Event(pb.GrpcLogEntry_EVENT_TYPE_CLIENT_HALF_CLOSE))
	}
}

// message writes the entry of a message, made by messageOf.
func (c *loggedCall) message(typ pb.GrpcLogEntry_EventType, m *pb.Message) {
	c.write(binlog.Message(typ, m))
}

// messageOf is what the log shows of v. It borrows v.
func (c *loggedCall) messageOf(v any) *pb.Message {
	length, data := loggedBytes(v, c.limits.Message)
	return &pb.Message{Length: uint32(length), Data: data}
}

// end writes the call's last entry.
func (c *loggedCall) end(e *pb.GrpcLogEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeLocked(e)
	c.over = true
}

func (c *loggedCall) trailer(md metadata.MD, st *status.Status, peer net.Addr) {
	c.end(binlog.ServerTrailer(md, st, peer))
}

// loggedBytes is a message in the log: its length, and a copy of as many of its first bytes as limit permits. It borrows v. Only
// a protobuf message is encoded as a whole, if limit permits any of it.
func loggedBytes(v any, limit uint64) (length int, data []byte) {
	switch v := v.(type) {
	case *tarn.Chain:
		data = make([]byte, min(uint64(v.Len()), limit))
		v.CopyTo(data)
		return v.Len(), data
	case *tarn.Buffer:
		return firstBytes(v.Bytes(), limit)
	case []byte:
		return firstBytes(v, limit)
	case proto.Message:
		return marshalled(v, limit)
	case protoadapt.MessageV1:
		return marshalled(protoadapt.MessageV2Of(v), limit)
	}
	return 0, nil
}

func firstBytes(b []byte, limit uint64) (int, []byte) {
	return len(b), slices.Clone(b[:min(uint64(len(b)), limit)])
}

func marshalled(m proto.Message, limit uint64) (int, []byte) {
	if limit == 0 {
		return proto.Size(m), nil
	}
	b, err := proto.Marshal(m)
	if err != nil { // the call fails with the same error
		return 0, nil
	}
	return len(b), b[:min(uint64(len(b)), limit)]
}
