package opentelemetry

import (
	"context"
	"maps"
	"slices"

	"google.golang.org/grpc/metadata"
)

// outgoing is a propagation.TextMapCarrier that adds to a call's metadata.
type outgoing struct{ ctx context.Context }

// Set adds a value.
func (c *outgoing) Set(k, v string) { c.ctx = metadata.AppendToOutgoingContext(c.ctx, k, v) }

// Get returns nothing: a propagator that injects does not read.
func (c *outgoing) Get(string) string { return "" }

// Keys lists the keys of the call's metadata.
func (c *outgoing) Keys() []string {
	md, _ := metadata.FromOutgoingContext(c.ctx)
	return slices.Collect(maps.Keys(md))
}

// incoming is a propagation.TextMapCarrier that reads a request's metadata.
type incoming struct{ ctx context.Context }

// Set does nothing: a propagator that extracts does not write.
func (incoming) Set(string, string) {}

// Get returns the last value of k, "" without one.
func (c incoming) Get(k string) string {
	if vs := metadata.ValueFromIncomingContext(c.ctx, k); len(vs) > 0 {
		return vs[len(vs)-1]
	}
	return ""
}

// Keys lists the keys of the request's metadata.
func (c incoming) Keys() []string {
	md, _ := metadata.FromIncomingContext(c.ctx)
	return slices.Collect(maps.Keys(md))
}
