package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

// usualCompressors are looked up in grpc-go's registry, which cannot be listed.
var usualCompressors = [...]string{"gzip", "zstd", "snappy", "s2", "deflate", "lz4", "br"}

// acceptEncoding is the value of grpc-accept-encoding: the usual and the named compressors that are
// registered.
func acceptEncoding(named []string) string {
	var have []string
	for _, n := range append(usualCompressors[:len(usualCompressors):len(usualCompressors)], named...) {
		if encoding.GetCompressor(n) != nil && !slices.Contains(have, n) {
			have = append(have, n)
		}
	}
	return strings.Join(have, ",")
}

// acceptance is the effect of grpc-go's experimental.AcceptCompressors on a call: the compressors that its responses
// may have.
type acceptance struct {
	names  []string
	header string // the value of grpc-accept-encoding
}

// take sets the compressors that responses may have. Without a name all may be used, as in grpc-go 1.84.
func (ci *callInfo) take(names []string) error {
	var a acceptance
	for _, n := range names {
		if n = strings.TrimSpace(n); identity(n) || slices.Contains(a.names, n) {
			continue
		}
		if encoding.GetCompressor(n) == nil {
			return status.Errorf(codes.InvalidArgument, "grpc: compressor %q is not registered", n)
		}
		a.names = append(a.names, n)
	}
	if ci.takes = nil; len(a.names) > 0 {
		a.header = strings.Join(a.names, ",")
		ci.takes, ci.special = &a, true
	}
	return nil
}

// accepts is the value of grpc-accept-encoding for a call.
func (ci *callInfo) accepts(cc *ClientConn) string {
	if ci.takes != nil {
		return ci.takes.header
	}
	return cc.accepts
}

// decompressor returns the compressor of a call's compressed response.
func (ci *callInfo) decompressor(name string) (encoding.Compressor, error) {
	if ci.takes != nil && !slices.Contains(ci.takes.names, name) {
		return nil, status.Errorf(codes.Internal, "grpc: peer compressed the response with %q which is not allowed by AcceptCompressors", name)
	}
	if c := encoding.GetCompressor(name); c != nil {
		return c, nil
	}
	return nil, status.Errorf(codes.Internal, "grpc: Decompressor is not installed for grpc-encoding %q", name)
}

// compressorOf is encoding.GetCompressor for a name of HTTP, which ignores case (RFC 9110 section 8.4.1).
func compressorOf(name string) encoding.Compressor {
	if c := encoding.GetCompressor(name); c != nil {
		return c
	}
	return encoding.GetCompressor(strings.ToLower(name))
}

// identity reports whether an encoding name means no compression.
func identity(name string) bool { return name == "" || name == encoding.Identity }

// sendCompressor is a compressor chosen by a handler.
type sendCompressor struct {
	c        encoding.Compressor // nil: no compression
	name     string
	response responseBlock
}

// ErrCompressor is wrapped by the errors of [SetSendCompressor] and [ClientSupportedCompressors]: the context
// is not a handler's, the compressor is not registered, or the client does not accept it.
var ErrCompressor = errors.New("rpc: bad compressor")

// SetSendCompressor makes the call of ctx compress its responses with the named compressor; "identity" turns
// compression off. It replaces grpc.SetSendCompressor, which works with grpc-go's own streams only. It fails
// outside a handler of a [Server], for a name that is not registered or that the client did not offer, and once
// the header has been sent.
func SetSendCompressor(ctx context.Context, name string) error {
	c := callOf(ctx)
	if c == nil {
		return fmt.Errorf("%w: caller's context is not of a Tarn server's handler", ErrCompressor)
	}
	var comp encoding.Compressor
	if identity(name) {
		name = ""
	} else {
		if comp = encoding.GetCompressor(name); comp == nil {
			return fmt.Errorf("%w: caller's %q is not registered", ErrCompressor, name)
		}
		if !slices.Contains(c.offered(), name) {
			return fmt.Errorf("%w: the client does not accept caller's %q", ErrCompressor, name)
		}
	}
	r := c.run()
	r.sendMu.Lock()
	defer r.sendMu.Unlock()
	if r.state == headerWritten || r.released {
		return errHeaderSent
	}
	c.compressBy(comp, name)
	return nil
}

// ClientSupportedCompressors returns the names of the compressors that the client of ctx's call offered, in
// grpc-accept-encoding or in the field of its protocol. It replaces grpc.ClientSupportedCompressors, which works with grpc-go's own streams
// only, and fails outside a handler of a [Server].
func ClientSupportedCompressors(ctx context.Context) ([]string, error) {
	c := callOf(ctx)
	if c == nil {
		return nil, fmt.Errorf("%w: caller's context is not of a Tarn server's handler", ErrCompressor)
	}
	return c.offered(), nil
}
