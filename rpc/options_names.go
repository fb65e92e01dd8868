package rpc

import (
	"fmt"

	"google.golang.org/grpc/channelz"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/resolver"
)

// WithResolvers adds resolvers for this client alone. They take precedence over those of grpc's package
// resolver.
func WithResolvers(rs ...resolver.Builder) DialOption {
	return dialOption(func(o *dialOptions) { o.resolvers = append(o.resolvers, rs...) })
}

// WithDisableServiceConfig ignores the service configs of the resolver; that of
// [WithDefaultServiceConfig] stays. The dns resolver then looks up no TXT records.
func WithDisableServiceConfig() DialOption {
	return dialOption(func(o *dialOptions) { o.noResolverConfig = true })
}

// WithDisableHealthCheck ignores healthCheckConfig of service configs.
func WithDisableHealthCheck() DialOption {
	return dialOption(func(o *dialOptions) { o.noHealthCheck = true })
}

// WithNoProxy connects without the proxy that the environment names (HTTPS_PROXY,
// NO_PROXY). With a [WithContextDialer] none is used either.
func WithNoProxy() DialOption { return dialOption(func(o *dialOptions) { o.noProxy = true }) }

// WithLocalDNSResolution makes the client resolve a dns target even if the environment names a proxy for it,
// which otherwise resolves it.
func WithLocalDNSResolution() DialOption {
	return dialOption(func(o *dialOptions) { o.localDNS = true })
}

// WithCredentialsBundle takes the credentials of connections and of calls from b. It replaces
// [WithTransportCredentials].
func WithCredentialsBundle(b credentials.Bundle) DialOption {
	return dialOption(func(o *dialOptions) { o.bundle = b })
}

// WithReadBufferSize is accepted for compatibility with grpc-go and has no effect: a connection reads into
// buffers of the pool, and holds none while it waits.
func WithReadBufferSize(int) DialOption { return dialOption(func(*dialOptions) {}) }

// WithWriteBufferSize is accepted for compatibility with grpc-go and has no effect: a connection writes
// messages from their own memory.
func WithWriteBufferSize(int) DialOption { return dialOption(func(*dialOptions) {}) }

// WithSharedWriteBuffer is accepted for compatibility with grpc-go and has no effect: there is no write
// buffer to share.
func WithSharedWriteBuffer(val bool) DialOption { return dialOption(func(*dialOptions) {}) }

// WithBufferPool is accepted for compatibility with grpc-go's package experimental and has no effect: memory comes from the pool of
// [WithPool].
func WithBufferPool(mem.BufferPool) DialOption { return dialOption(func(*dialOptions) {}) }

// WithChannelzParentID is accepted for compatibility with grpc-go and has no effect: a client is listed in
// channelz (see [WithChannelz]) without a parent.
func WithChannelzParentID(channelz.Identifier) DialOption { return dialOption(func(*dialOptions) {}) }

// useBundle sets the credentials of the bundle, if there is one.
func (o *dialOptions) useBundle() error {
	if o.bundle == nil {
		return nil
	}
	if o.creds != nil {
		return fmt.Errorf("%w: caller set both transport credentials and a credentials bundle", ErrCredentials)
	}
	if o.creds = o.bundle.TransportCredentials(); o.creds == nil {
		return fmt.Errorf("%w: caller's credentials bundle has no transport credentials", ErrCredentials)
	}
	if p := o.bundle.PerRPCCredentials(); p != nil {
		o.perRPC = append(o.perRPC, p)
		o.bundled = 1
	}
	return nil
}
