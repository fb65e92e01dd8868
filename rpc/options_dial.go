package rpc

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tarn-go/tarn"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"
)

// DialOption configures a [ClientConn]. Options have grpc-go's names and meanings. Only this package implements it; a struct that embeds
// [EmptyDialOption] is one too. A nil DialOption must not be passed to [NewClient], as to grpc-go's.
type DialOption interface{ apply(*dialOptions) }

// EmptyDialOption is a [DialOption] that changes nothing, as grpc-go's.
type EmptyDialOption struct{}

func (EmptyDialOption) apply(*dialOptions) {}

// dialFunc opens a connection to an address.
type dialFunc = func(ctx context.Context, addr string) (net.Conn, error)

type dialOptions struct {
	pool           *tarn.Pool
	log            *slog.Logger // nil: nothing is logged
	creds          credentials.TransportCredentials
	perRPC         []credentials.PerRPCCredentials
	bundled        int // how many of perRPC are the bundle's: the last
	dialer         dialFunc
	userAgent      string
	authority      string
	callOptions    []grpc.CallOption
	keepalive      keepalive.ClientParameters
	connect        grpc.ConnectParams
	window         int
	connWindow     int
	maxHeaderList  int
	unannounced    int // bytes of a header list for servers that announce no limit; 0: h2's
	unary          []grpc.UnaryClientInterceptor
	stream         []grpc.StreamClientInterceptor
	unaryOne       grpc.UnaryClientInterceptor
	streamOne      grpc.StreamClientInterceptor
	stats          []stats.Handler
	serviceConfig  *string // nil: none
	retry          *RetryPolicy
	hedging        *HedgingPolicy
	bundle         credentials.Bundle
	resolvers      []resolver.Builder
	maxAttempts    int
	idleTimeout    time.Duration
	acceptEncoding []string
	callLog        *CallLog          // nil: none
	channelz       *ChannelzRegistry // nil: not listed
	roundTripper   http.RoundTripper // nil: the client makes its own connections
	observe        *observer         // nil: calls are not observed

	// Together, because each would otherwise take eight bytes of every client.
	fixedWindow      bool
	noProxy          bool
	localDNS         bool
	noRetry          bool
	noResolverConfig bool // only WithDefaultServiceConfig sets service configs
	noHealthCheck    bool
	protocol         Protocol
	httpGet          bool
}

const (
	defaultMinConnectTimeout = 20 * time.Second
	defaultMaxAttempts       = 5
	defaultIdleTimeout       = 30 * time.Minute
	userAgent                = "grpc-go-tarn/1"
)

func defaultDialOptions() dialOptions {
	return dialOptions{
		pool: tarn.Shared(), maxAttempts: defaultMaxAttempts, idleTimeout: defaultIdleTimeout,
		connect: grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: defaultMinConnectTimeout},
	}
}

// dialOption returns a DialOption that calls set. It is a pointer, as grpc-go's, because interfaces that hold functions cannot be compared.
func dialOption(set func(o *dialOptions)) DialOption { return &dialSetter{set} }

type dialSetter struct{ set func(o *dialOptions) }

func (f *dialSetter) apply(o *dialOptions) { f.set(o) }

// JoinDialOptions is opts as one option, for packages that need several. Without any it changes nothing.
func JoinDialOptions(opts ...DialOption) DialOption {
	return dialOption(func(o *dialOptions) {
		for _, opt := range opts {
			opt.apply(o)
		}
	})
}

// WithPool makes the client take its memory from p instead of tarn.Shared.
func WithPool(p *tarn.Pool) DialOption { return dialOption(func(o *dialOptions) { o.pool = p }) }

// WithTransportCredentials sets the credentials of connections. They are required: insecure.NewCredentials
// selects plaintext.
func WithTransportCredentials(c credentials.TransportCredentials) DialOption {
	return dialOption(func(o *dialOptions) { o.creds = c })
}

// WithPerRPCCredentials adds credentials to every call.
func WithPerRPCCredentials(c credentials.PerRPCCredentials) DialOption {
	return dialOption(func(o *dialOptions) { o.perRPC = append(o.perRPC, c) })
}

// WithContextDialer opens connections with f. The address is the one that the target resolves to; that of a
// Unix socket begins with "unix:".
func WithContextDialer(f func(ctx context.Context, addr string) (net.Conn, error)) DialOption {
	return dialOption(func(o *dialOptions) { o.dialer = f })
}

// WithUserAgent puts s in front of the library's own user-agent.
func WithUserAgent(s string) DialOption {
	return dialOption(func(o *dialOptions) { o.userAgent = agentPrefix(s) })
}

// agentPrefix is what s puts in front of the library's own user-agent: nothing if s is empty, because servers refuse a field value that begins
// with a blank (RFC 9113 section 8.2.1).
func agentPrefix(s string) string {
	if s = strings.TrimSpace(s); s != "" {
		s += " "
	}
	return s
}

// WithAuthority sets the :authority of calls and the name TLS verifies.
func WithAuthority(a string) DialOption { return dialOption(func(o *dialOptions) { o.authority = a }) }

// WithDefaultCallOptions adds opts in front of those of each call.
func WithDefaultCallOptions(opts ...grpc.CallOption) DialOption {
	return dialOption(func(o *dialOptions) { o.callOptions = append(o.callOptions, opts...) })
}

// WithKeepaliveParams sets when a silent server is pinged; less than 10 s
// becomes 10 s.
func WithKeepaliveParams(p keepalive.ClientParameters) DialOption {
	return dialOption(func(o *dialOptions) { o.keepalive = p })
}

// WithConnectParams sets the backoff between attempts to connect, and the time limit of an attempt: MinConnectTimeout, 1 second if it is 0,
// or the time until the next attempt if that is longer. Without this option they are grpc-go's; MinConnectTimeout is 20 seconds. A client
// of gRPC-Web or Connect connects when a call needs it: there the limit is MinConnectTimeout, and the backoff is that between attempts of
// a call that waits until the server is ready.
func WithConnectParams(p grpc.ConnectParams) DialOption {
	return dialOption(func(o *dialOptions) { o.connect = p })
}

// minConnectTimeout is the shortest time limit of an attempt to connect.
func (o *dialOptions) minConnectTimeout() time.Duration {
	return cmp.Or(o.connect.MinConnectTimeout, time.Second)
}

// WithInitialWindowSize sets the receive window of a stream in bytes; it still grows, up to 4 MiB, when it
// limits the server. Values below 64 KiB are ignored.
func WithInitialWindowSize(n int32) DialOption {
	return dialOption(func(o *dialOptions) { o.window = largeWindow(n) })
}

// WithInitialConnWindowSize sets the receive window of a connection in bytes.
// Values below 64 KiB are ignored.
func WithInitialConnWindowSize(n int32) DialOption {
	return dialOption(func(o *dialOptions) { o.connWindow = largeWindow(n) })
}

// WithStaticStreamWindowSize sets the receive window of a stream in bytes, and lets neither this window nor
// the connection's grow. Values below 64 KiB leave it at 256 KiB.
func WithStaticStreamWindowSize(n int32) DialOption {
	return dialOption(func(o *dialOptions) { o.window, o.fixedWindow = largeWindow(n), true })
}

// WithStaticConnWindowSize sets the receive window of a connection in bytes, and lets neither this window
// nor those of streams grow. Values below 64 KiB leave it at 1 MiB.
func WithStaticConnWindowSize(n int32) DialOption {
	return dialOption(func(o *dialOptions) { o.connWindow, o.fixedWindow = largeWindow(n), true })
}

// WithMaxHeaderListSize bounds the header list of a response in bytes, counted as in HTTP/2; 64 KiB unless
// set, and 16 MiB at most.
func WithMaxHeaderListSize(n uint32) DialOption {
	return dialOption(func(o *dialOptions) { o.maxHeaderList = headerList(n) })
}

// WithUnannouncedHeaderListSize sets how many bytes the header list of a request may have, counted as in HTTP/2, for servers that
// announce no limit of their own; a call with a longer one ends with INTERNAL, and nothing is sent. Unless set, or with 0, it is 144 KiB,
// and no value may take more than 64 KiB as encoded: Node ends the connection for either. grpc-go has no such bound; its servers take
// 16 MiB, and announce that only if grpc.MaxHeaderListSize is set.
func WithUnannouncedHeaderListSize(n uint32) DialOption {
	return dialOption(func(o *dialOptions) { o.unannounced = int(min(n, math.MaxInt32)) })
}

// WithUnaryInterceptor installs the outermost interceptor of unary calls.
// Interceptors get the *grpc.ClientConn that [AsGRPC] returns.
func WithUnaryInterceptor(i grpc.UnaryClientInterceptor) DialOption {
	return dialOption(func(o *dialOptions) { o.unaryOne = i })
}

// WithChainUnaryInterceptor adds interceptors of unary calls, the first
// outermost.
func WithChainUnaryInterceptor(is ...grpc.UnaryClientInterceptor) DialOption {
	return dialOption(func(o *dialOptions) { o.unary = append(o.unary, is...) })
}

// WithStreamInterceptor installs the outermost interceptor of streaming calls.
func WithStreamInterceptor(i grpc.StreamClientInterceptor) DialOption {
	return dialOption(func(o *dialOptions) { o.streamOne = i })
}

// WithChainStreamInterceptor adds interceptors of streaming calls, the first
// outermost.
func WithChainStreamInterceptor(is ...grpc.StreamClientInterceptor) DialOption {
	return dialOption(func(o *dialOptions) { o.stream = append(o.stream, is...) })
}

// WithStatsHandler adds a handler of statistics. nil is ignored.
func WithStatsHandler(h stats.Handler) DialOption {
	return dialOption(func(o *dialOptions) {
		if h != nil {
			o.stats = append(o.stats, h)
		}
	})
}

// WithDefaultServiceConfig is the service config, in JSON, of a target whose resolver has none. Supported are
// loadBalancingConfig and loadBalancingPolicy (any balancer that is registered with grpc's package balancer),
// retryThrottling, healthCheckConfig, and in methodConfig name, waitForReady, timeout,
// maxRequestMessageBytes, maxResponseMessageBytes, retryPolicy and hedgingPolicy. NewClient fails on anything
// else rather than ignoring it.
func WithDefaultServiceConfig(json string) DialOption {
	return dialOption(func(o *dialOptions) { o.serviceConfig = &json })
}

// WithRetryPolicy retries calls of every method for which the service config has no policy.
func WithRetryPolicy(p RetryPolicy) DialOption {
	return dialOption(func(o *dialOptions) { o.retry = &p })
}

// WithDisableRetry turns retry and hedging policies off. Calls that a server never
// processed are still tried again.
func WithDisableRetry() DialOption { return dialOption(func(o *dialOptions) { o.noRetry = true }) }

// WithMaxCallAttempts bounds the attempts of a call whatever its policy says; 5
// unless set. Less than 2 is 5.
func WithMaxCallAttempts(n int) DialOption {
	return dialOption(func(o *dialOptions) {
		if n < 2 {
			n = defaultMaxAttempts
		}
		o.maxAttempts = n
	})
}

// WithIdleTimeout closes the connections of a client in which no call has begun, no stream was open and no call
// waited for the resolver, a connection, a stream or its next attempt for d, or for twice that at most; the next
// call connects again. 30 minutes unless set; 0 disables it.
func WithIdleTimeout(d time.Duration) DialOption {
	return dialOption(func(o *dialOptions) { o.idleTimeout = d })
}

// WithAcceptCompressors is [AcceptCompressors] for a client.
func WithAcceptCompressors(names ...string) DialOption {
	return dialOption(func(o *dialOptions) { o.acceptEncoding = append(o.acceptEncoding, names...) })
}
