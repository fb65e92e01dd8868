package rpc

import (
	"log/slog"
	"math"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/tap"
)

const (
	defaultMaxRecv           = 4 << 20
	defaultConnectionTimeout = 120 * time.Second
	defaultMaxStreams        = 4096
	defaultIdleWorkers       = 1024
)

// ServerOption configures a [Server]. Options have grpc-go's names and meanings. Only this package implements it; a struct that embeds
// [EmptyServerOption] is one too. A nil ServerOption must not be passed to [NewServer], as to grpc-go's.
type ServerOption interface{ apply(*serverOptions) }

// EmptyServerOption is a [ServerOption] that changes nothing, as grpc-go's.
type EmptyServerOption struct{}

func (EmptyServerOption) apply(*serverOptions) {}

type serverOptions struct {
	pool           *tarn.Pool
	log            *slog.Logger // nil: nothing is logged
	creds          credentials.TransportCredentials
	codec          message.Codec // forced; nil: by content subtype
	maxRecv        int
	gatherMost     int
	maxSend        int
	maxStreams     int
	maxResets      int // 0: package h2's
	maxHeaderList  int
	unannounced    int // bytes of a header list for clients that announce no limit; 0: h2's
	window         int
	connWindow     int
	fixedWindow    bool
	keepalive      keepalive.ServerParameters
	policy         keepalive.EnforcementPolicy
	unary          []grpc.UnaryServerInterceptor
	stream         []grpc.StreamServerInterceptor
	unaryOne       grpc.UnaryServerInterceptor
	streamOne      grpc.StreamServerInterceptor
	stats          []stats.Handler
	unknown        grpc.StreamHandler
	connTimeout    time.Duration
	waitHandlers   bool
	onPanic        PanicFunc
	idleWorkers    int
	acceptEncoding []string
	tap            tap.ServerInHandle
	cors           *cors
	observe        *observer // nil: calls are not observed
	lendAll        bool
	lendOf         []string
	lendViews      []string
	lentEvery      int
	lentReport     func(KeptField)
	callLog        *CallLog          // nil: none
	channelz       *ChannelzRegistry // nil: not listed
	health         []interface{ Shutdown() }
}

func defaultServerOptions() serverOptions {
	return serverOptions{
		pool: tarn.Shared(), maxRecv: defaultMaxRecv, gatherMost: gatherMost, maxSend: math.MaxInt32, maxStreams: defaultMaxStreams,
		connTimeout: defaultConnectionTimeout, idleWorkers: defaultIdleWorkers,
		lentEvery: defaultLentEvery, lentReport: logKept,
	}
}

// serverOption returns a ServerOption that calls set; a pointer, see dialOption.
func serverOption(set func(o *serverOptions)) ServerOption { return &serverSetter{set} }

type serverSetter struct{ set func(o *serverOptions) }

func (f *serverSetter) apply(o *serverOptions) { f.set(o) }

// JoinServerOptions is opts as one option, for packages that need several. Without any it changes nothing.
func JoinServerOptions(opts ...ServerOption) ServerOption {
	return serverOption(func(o *serverOptions) {
		for _, opt := range opts {
			opt.apply(o)
		}
	})
}

// Pool makes the server take its memory from p instead of tarn.Shared.
func Pool(p *tarn.Pool) ServerOption { return serverOption(func(o *serverOptions) { o.pool = p }) }

// Creds sets the credentials of connections, TLS for instance. Without it, or
// with insecure.NewCredentials, connections are plaintext. With credentials.NewTLS, connections use HTTP/2; name "http/1.1"
// beside "h2" in the NextProtos of the tls.Config to serve gRPC-Web and Connect over HTTP/1.1, too.
func Creds(c credentials.TransportCredentials) ServerOption {
	return serverOption(func(o *serverOptions) { o.creds = c })
}

// plaintext reports whether connections are not encrypted: their first bytes say which protocol they use.
func (o *serverOptions) plaintext() bool {
	return o.creds == nil || o.creds.Info().SecurityProtocol == "insecure"
}

// MaxRecvMsgSize is the largest length of a received message in bytes, checked before and after
// decompression; 4 MiB unless set. A larger one ends its call with RESOURCE_EXHAUSTED.
func MaxRecvMsgSize(n int) ServerOption {
	return serverOption(func(o *serverOptions) { o.maxRecv = n })
}

// RequestMemory bounds the memory in bytes that one connection takes for incomplete unary requests; 256 MiB
// unless set, and at least 1 MiB. Their handlers have not started, so nothing else bounds it but the number
// of calls that a connection may have. Up to a quarter of n, requests arrive concurrently; beyond that some
// at a time, in the order in which they began to wait. A request for whose first window (256 KiB, or
// InitialWindowSize) there is no memory left ends with REFUSED_STREAM, which clients may try again. grpc-go
// has no such limit.
func RequestMemory(n int) ServerOption {
	return serverOption(func(o *serverOptions) { o.gatherMost = max(n, 1<<20) })
}

// MaxSendMsgSize is the largest length of a sent message in bytes; math.MaxInt32 unless set.
func MaxSendMsgSize(n int) ServerOption {
	return serverOption(func(o *serverOptions) { o.maxSend = n })
}

// MaxConcurrentStreams bounds the running calls of one connection, running handlers included; 4096 unless set
// (grpc-go: no limit). 0 sets no limit, as in grpc-go; the header lists of a connection's calls are still
// bounded, to 16 MiB together, and further calls are refused with REFUSED_STREAM.
func MaxConcurrentStreams(n uint32) ServerOption {
	if n == 0 {
		n = math.MaxInt32
	}
	return serverOption(func(o *serverOptions) { o.maxStreams = int(min(n, math.MaxInt32)) })
}

// MaxResets is how many calls, beyond the number that have ended normally, a client may reset on one
// connection before their handlers have started, or break; 1000 unless set. Beyond it the connection is read
// no faster than 5,000 such resets a second, and ends with ENHANCE_YOUR_CALM when that has lasted for 20
// milliseconds times n, or when 500 calls a second are broken. Resets of calls whose handler has started, or
// whose deadline has passed, do not count. grpc-go has no such limit.
func MaxResets(n uint32) ServerOption {
	return serverOption(func(o *serverOptions) { o.maxResets = int(min(n, math.MaxInt32)) })
}

// MaxHeaderListSize bounds the header list of a request in bytes, counted as in HTTP/2; 64 KiB unless set
// (grpc-go: 16 MiB), and 16 MiB at most.
func MaxHeaderListSize(n uint32) ServerOption {
	return serverOption(func(o *serverOptions) { o.maxHeaderList = headerList(n) })
}

// headerList is n, at most what h2 accepts.
func headerList(n uint32) int { return int(min(n, 16<<20)) }

// UnannouncedHeaderListSize sets how many bytes a header list, trailers or a status may have, counted as in HTTP/2, for clients
// that announce no limit of their own; longer ones are not sent, and the call ends with INTERNAL. Unless set, or with 0, it is
// 144 KiB, and no value may take more than 64 KiB as encoded: Node ends the connection for either. grpc-go has no such bound; its clients
// take 16 MiB, and announce that only if grpc.WithMaxHeaderListSize is set.
func UnannouncedHeaderListSize(n uint32) ServerOption {
	return serverOption(func(o *serverOptions) { o.unannounced = int(min(n, math.MaxInt32)) })
}

// InitialWindowSize sets the receive window of a stream in bytes; it still grows, up to 4 MiB, when it limits the peer.
// Values below 64 KiB are ignored.
func InitialWindowSize(n int32) ServerOption {
	return serverOption(func(o *serverOptions) { o.window = largeWindow(n) })
}

// InitialConnWindowSize sets the receive window of a connection in bytes.
// Values below 64 KiB are ignored.
func InitialConnWindowSize(n int32) ServerOption {
	return serverOption(func(o *serverOptions) { o.connWindow = largeWindow(n) })
}

// StaticStreamWindowSize sets the receive window of a stream in bytes, and lets neither this window nor the
// connection's grow. Values below 64 KiB leave it at 256 KiB.
func StaticStreamWindowSize(n int32) ServerOption {
	return serverOption(func(o *serverOptions) { o.window, o.fixedWindow = largeWindow(n), true })
}

// StaticConnWindowSize sets the receive window of a connection in bytes, and lets neither this window nor
// those of streams grow. Values below 64 KiB leave it at 1 MiB.
func StaticConnWindowSize(n int32) ServerOption {
	return serverOption(func(o *serverOptions) { o.connWindow, o.fixedWindow = largeWindow(n), true })
}

// smallestWindow is HTTP/2's initial window (RFC 9113, section 6.9.2); grpc-go
// ignores smaller settings too.
const smallestWindow = 65535

func largeWindow(n int32) int {
	if n < smallestWindow {
		return 0
	}
	return int(n)
}

// staticWindow is the window of a stream in bytes if only the connection's is set: package h2's default.
const staticWindow = 256 << 10

// fixWindow keeps the windows of a connection from growing. Its own grows with those of its streams.
func fixWindow(cfg *h2.Config) {
	if cfg.Window == 0 {
		cfg.Window = staticWindow
	}
	cfg.MaxWindow = cfg.Window
}

// KeepaliveParams sets when idle and old connections are closed and when the
// server pings a silent client.
func KeepaliveParams(p keepalive.ServerParameters) ServerOption {
	return serverOption(func(o *serverOptions) { o.keepalive = p })
}

// KeepaliveEnforcementPolicy sets how often clients may ping.
func KeepaliveEnforcementPolicy(p keepalive.EnforcementPolicy) ServerOption {
	return serverOption(func(o *serverOptions) { o.policy = p })
}

// UnaryInterceptor installs the outermost interceptor of unary calls. It panics
// when installed twice: use [ChainUnaryInterceptor] for several.
func UnaryInterceptor(i grpc.UnaryServerInterceptor) ServerOption {
	return serverOption(func(o *serverOptions) {
		if o.unaryOne != nil {
			panic("rpc: caller set UnaryInterceptor twice")
		}
		o.unaryOne = i
	})
}

// ChainUnaryInterceptor adds interceptors of unary calls, the first outermost.
func ChainUnaryInterceptor(is ...grpc.UnaryServerInterceptor) ServerOption {
	return serverOption(func(o *serverOptions) { o.unary = append(o.unary, is...) })
}

// StreamInterceptor installs the outermost interceptor of streaming calls. It
// panics when installed twice.
func StreamInterceptor(i grpc.StreamServerInterceptor) ServerOption {
	return serverOption(func(o *serverOptions) {
		if o.streamOne != nil {
			panic("rpc: caller set StreamInterceptor twice")
		}
		o.streamOne = i
	})
}

// ChainStreamInterceptor adds interceptors of streaming calls, the first
// outermost.
func ChainStreamInterceptor(is ...grpc.StreamServerInterceptor) ServerOption {
	return serverOption(func(o *serverOptions) { o.stream = append(o.stream, is...) })
}

// StatsHandler adds a handler of statistics. nil is ignored.
func StatsHandler(h stats.Handler) ServerOption {
	return serverOption(func(o *serverOptions) {
		if h != nil {
			o.stats = append(o.stats, h)
		}
	})
}

// UnknownServiceHandler handles calls of methods that are not registered, as streams
// of both sides. A proxy uses it with *tarn.Chain messages.
func UnknownServiceHandler(h grpc.StreamHandler) ServerOption {
	return serverOption(func(o *serverOptions) { o.unknown = h })
}

// ConnectionTimeout bounds the set-up of a connection, including TLS handshake and HTTP/2 preface; 120 s
// unless set.
func ConnectionTimeout(d time.Duration) ServerOption {
	return serverOption(func(o *serverOptions) { o.connTimeout = d })
}

// ForceServerCodec uses c for every message, whatever the content subtype.
func ForceServerCodec(c encoding.Codec) ServerOption {
	return serverOption(func(o *serverOptions) { o.codec = message.V1{C: c, Subtype: c.Name()} })
}

// ForceServerCodecV2 uses c for every message, whatever the content subtype.
func ForceServerCodecV2(c encoding.CodecV2) ServerOption {
	return serverOption(func(o *serverOptions) { o.codec = message.V2{C: c} })
}

// NumStreamWorkers says how many idle handler goroutines are kept for the next calls; 1024 unless set. They
// end after some time without work, and with the last connection.
func NumStreamWorkers(n uint32) ServerOption {
	return serverOption(func(o *serverOptions) { o.idleWorkers = int(min(n, math.MaxInt32)) })
}

// WaitForHandlers makes Stop wait until the handlers have returned, and the statistics handlers that are told of the end of connections.
func WaitForHandlers(wait bool) ServerOption {
	return serverOption(func(o *serverOptions) { o.waitHandlers = wait })
}

// PanicFunc is called for a panic in a handler or interceptor, on the handler's goroutine, with the method,
// the value, and the stack.
type PanicFunc func(method string, value any, stack []byte)

// PanicHandler sets the function that is called for panics in handlers. With or without it, the call ends
// with INTERNAL and the process continues; without it package grpclog logs the panic. A panic with
// http.ErrAbortHandler ends the response without a status instead, and is neither passed to f nor logged, as in net/http.
func PanicHandler(f PanicFunc) ServerOption {
	return serverOption(func(o *serverOptions) { o.onPanic = f })
}

// AcceptCompressors names further compressors to offer in grpc-accept-encoding beside the usual ones (gzip,
// zstd, snappy, s2, deflate, lz4, br), each while it is registered with package encoding: grpc-go's registry can look up a
// name but not list its names.
func AcceptCompressors(names ...string) ServerOption {
	return serverOption(func(o *serverOptions) { o.acceptEncoding = append(o.acceptEncoding, names...) })
}
