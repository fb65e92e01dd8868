// Package grpcgo has every place in which package rpc depends on what grpc-go neither exports nor promises: keys of contexts, names of types,
// unexported fields, and when it calls what. Each says what becomes of rpc where a release of grpc-go is different. The package's tests name what a
// release has changed; they run with the lowest release that rpc supports, and in module interop with the newest.
package grpcgo

import (
	"context"
	"reflect"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
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

// The keys of a context's incoming metadata, peer and server's stream, found once and never changed. A key that is nil is never asked for:
// handlers do not find what it is of.
var (
	MetadataKey = probe(func(ctx context.Context) { metadata.FromIncomingContext(ctx) })
	PeerKey     = probe(func(ctx context.Context) { peer.FromContext(ctx) })
	StreamKey   = probe(func(ctx context.Context) { grpc.ServerTransportStreamFromContext(ctx) })
)

// IsConnectionKey reports whether key is the one under which grpc-go's server puts a call's net.Conn into its
// context. Package authz and the RBAC filter ask for it. No exported function of package grpc does, so that
// the key cannot be learned by a probe. Where it has another name, these two find no connection, and deny.
func IsConnectionKey(key any) bool {
	t := reflect.TypeOf(key)
	return t != nil && t.Kind() == reflect.Struct && t.Name() == "connectionKey" && t.PkgPath() == "google.golang.org/grpc/internal/transport"
}

// IsOption reports whether an option's type is grpc-go's own: those have a meaning, even if package rpc does not support it.
func IsOption(opt grpc.CallOption) bool {
	t := reflect.TypeOf(opt)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.PkgPath() == "google.golang.org/grpc"
}

// AcceptedCompressors returns the argument of experimental.AcceptCompressors, if opt was made by that. Its type is unexported, and it has no
// method that returns the names. Where it cannot be read, the call fails, as with other options that are not supported.
func AcceptedCompressors(opt grpc.CallOption) ([]string, bool) {
	v := reflect.ValueOf(opt)
	if !IsOption(opt) || v.Kind() != reflect.Struct || v.Type().Name() != "acceptCompressorsCallOption" {
		return nil, false
	}
	f := v.FieldByName("names")
	if !f.IsValid() || f.Type() != reflect.TypeFor[[]string]() {
		return nil, false
	}
	names := make([]string, f.Len())
	for i := range names {
		names[i] = f.Index(i).String()
	}
	return names, true
}

// Pointer identifies a value that is a pointer to T.
type Pointer[T any] struct{ address uintptr }

// PointerTo identifies v.
func PointerTo[T any](v *T) Pointer[T] { return Pointer[T]{reflect.ValueOf(v).Pointer()} }

// Resolvers returns those resolver builders among the options of a ClientConn that are pointers to T. They are in unexported fields; where these
// cannot be read, readable is false.
func Resolvers[T any](conn *grpc.ClientConn) (of []Pointer[T], readable bool) {
	list := reflect.ValueOf(conn).Elem().FieldByName("dopts")
	if list.Kind() == reflect.Struct {
		list = list.FieldByName("resolvers")
	}
	if list.Kind() != reflect.Slice {
		return nil, false
	}
	for i := range list.Len() {
		if b := list.Index(i).Elem(); b.Type() == reflect.TypeFor[*T]() {
			of = append(of, Pointer[T]{b.Pointer()})
		}
	}
	return of, true
}

// ServiceConfigJSON is the JSON that a config of grpc-go's own parser was made of. It is in an unexported field; where it cannot be read, ok is
// false, and the config is refused.
//
//lint:ignore SA1019 grpc-go's parser still returns it
func ServiceConfigJSON(c *grpc.ServiceConfig) (text string, ok bool) {
	v := reflect.Indirect(reflect.ValueOf(c))
	if v.IsValid() {
		v = v.FieldByName("rawJSONString")
	}
	if v.Kind() != reflect.String {
		return "", false
	}
	return v.String(), v.Len() > 0
}

// authorityField is the index of the Authority of stats.OutHeader, a field that grpc-go has from 1.85 on; nil before.
var authorityField = func() []int {
	f, ok := reflect.TypeFor[stats.OutHeader]().FieldByName("Authority")
	if !ok || f.Type.Kind() != reflect.String {
		return nil
	}
	return f.Index
}()

// SetAuthority sets the Authority of h, if it has one.
func SetAuthority(h *stats.OutHeader, authority string) {
	if authorityField != nil {
		reflect.ValueOf(h).Elem().FieldByIndex(authorityField).SetString(authority)
	}
}

// IsChannelzService reports whether impl is grpc-go's own channelz service, whose type is unexported. Where it has another package, no warning
// says that it does not show package rpc.
func IsChannelzService(impl any) bool {
	t := reflect.TypeOf(impl)
	return t != nil && t.Kind() == reflect.Pointer && t.Elem().PkgPath() == "google.golang.org/grpc/channelz/service"
}
