package rpc

import (
	"context"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// keyProbe learns the context key of another package. The keys are unexported types of grpc's packages; with
// them one context returns metadata, peer and transport stream lazily, instead of three context values made
// for every call whether they are used or not.
type keyProbe struct {
	context.Context
	key any
}

func (p *keyProbe) Value(key any) any {
	p.key = key
	return nil
}

func probe(ask func(context.Context)) any {
	p := &keyProbe{Context: context.Background()}
	ask(p)
	return p.key
}

// The keys, found once and never changed.
var (
	metadataKey = probe(func(ctx context.Context) { metadata.FromIncomingContext(ctx) })
	peerKey     = probe(func(ctx context.Context) { peer.FromContext(ctx) })
	streamKey   = probe(func(ctx context.Context) { grpc.ServerTransportStreamFromContext(ctx) })
)

// isConnectionKey reports whether key is the one under which grpc-go's server puts a call's net.Conn into its
// context. Package authz and the RBAC filter ask for it. No exported function of package grpc does, so that
// the key cannot be learned by a probe.
func isConnectionKey(key any) bool {
	t := reflect.TypeOf(key)
	return t != nil && t.Kind() == reflect.Struct && t.Name() == "connectionKey" && t.PkgPath() == "google.golang.org/grpc/internal/transport"
}
