package rpc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"google.golang.org/grpc/encoding"
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
// outside a handler of a [Server], for a name that is not registered or that the client did not offer in
// grpc-accept-encoding, and once the header has been sent.
func SetSendCompressor(ctx context.Context, name string) error {
	c := callOf(ctx)
	if c == nil {
		return fmt.Errorf("%w: caller's context is not of a Tarn server's handler", ErrCompressor)
	}
	sc := &sendCompressor{}
	fields := []h2.Field{{Name: ":status", Value: httpOK}, {Name: "content-type", Value: header.ContentType(c.shape.subtype)}}
	if !identity(name) {
		if sc.c, sc.name = encoding.GetCompressor(name), name; sc.c == nil {
			return fmt.Errorf("%w: caller's %q is not registered", ErrCompressor, name)
		}
		if !slices.Contains(c.accepted(), name) {
			return fmt.Errorf("%w: the client does not accept caller's %q", ErrCompressor, name)
		}
		fields = append(fields, h2.Field{Name: "grpc-encoding", Value: name})
	}
	sc.response = newResponseBlock(fields)
	c.sendMu.Lock()
	defer c.sendMu.Unlock()
	if c.sentHeader || c.released {
		return errHeaderSent
	}
	c.comp = sc
	return nil
}

// ClientSupportedCompressors returns the names of the compressors that the client of ctx's call offered in
// grpc-accept-encoding. It replaces grpc.ClientSupportedCompressors, which works with grpc-go's own streams
// only, and fails outside a handler of a [Server].
func ClientSupportedCompressors(ctx context.Context) ([]string, error) {
	c := callOf(ctx)
	if c == nil {
		return nil, fmt.Errorf("%w: caller's context is not of a Tarn server's handler", ErrCompressor)
	}
	return c.accepted(), nil
}

// accepted returns the names in the request's grpc-accept-encoding.
func (c *serverCall) accepted() []string {
	var out []string
	for _, v := range c.incoming()["grpc-accept-encoding"] {
		for name := range strings.SplitSeq(v, ",") {
			if name = strings.TrimSpace(name); name != "" {
				out = append(out, name)
			}
		}
	}
	return out
}
