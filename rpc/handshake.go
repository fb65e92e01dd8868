package rpc

import (
	"context"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/resolver"
)

// handshakeContext makes an address' attributes available to transport credentials, by credentials.ClientHandshakeInfoFromContext.
func handshakeContext(ctx context.Context, addr *resolver.Address) context.Context {
	if addr.Attributes == nil {
		return ctx
	}
	var k keyCatcher
	credentials.ClientHandshakeInfoFromContext(&k)
	if k.key == nil {
		return ctx
	}
	return context.WithValue(ctx, k.key, credentials.ClientHandshakeInfo{Attributes: addr.Attributes})
}

// keyCatcher is a context without values that keeps the key it was asked for last. Package credentials has a function that reads its value
// from a context, but that which puts it there is internal to grpc-go.
type keyCatcher struct {
	context.Context // nil: only Value is called
	key             any
}

// Value implements context.Context.
func (k *keyCatcher) Value(key any) any {
	k.key = key
	return nil
}
