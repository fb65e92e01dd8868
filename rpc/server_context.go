package rpc

import (
	"context"
	"time"

	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// A serverCall is its own context: one object holds deadline, cancellation, metadata, peer and transport
// stream, each made on first use.
var _ context.Context = (*serverCall)(nil)

// Deadline is the client's deadline, if it sent one.
func (c *serverCall) Deadline() (time.Time, bool) {
	at := c.timer.At()
	return at, !at.IsZero()
}

// Done is closed when the call has ended: cancelled, expired, disconnected, or returned from.
func (c *serverCall) Done() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over.Done()
}

// Err is nil until the call has ended.
func (c *serverCall) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over.Err()
}

// Value returns the values of packages metadata, peer and grpc, and those of the connection's context.
func (c *serverCall) Value(key any) any {
	switch key {
	case grpcgo.MetadataKey:
		return c.incoming()
	case grpcgo.PeerKey:
		return &c.conn.peer
	case grpcgo.StreamKey:
		return grpc.ServerTransportStream(transportStream[*serverCall]{c})
	}
	v := c.conn.ctx.Value(key)
	if v == nil && grpcgo.IsConnectionKey(key) {
		return c.conn.nc
	}
	return v
}

// incoming is the request's metadata; it is shared and must not be changed, which package metadata ensures by
// copying.
func (c *serverCall) incoming() metadata.MD {
	if len(c.extra) == 0 {
		return c.shape.md
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.md == nil {
		// Binary values were checked when the call began.
		c.md, _ = c.shape.metadata(c.extra)
	}
	return c.md
}

// AfterFunc lets package context attach children to a call without a goroutine for each: see
// context.AfterFunc.
func (c *serverCall) AfterFunc(f func()) (stop func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.over.AfterFunc(f)
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.over.Stop(a)
	}
}
