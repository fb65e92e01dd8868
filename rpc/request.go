package rpc

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/balance"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// route holds the data that all calls of a method share.
type route struct {
	block   *h2.Block // the request's fields, encoded for sending
	size    int       // of the block's fields, counted as for a limit on header lists
	replies message.Learned
	method  string
}

// fieldSpaces has memory for the fields that differ from call to call, which is used only while a stream is opened.
var fieldSpaces = sync.Pool{New: func() any { return new([]h2.Field) }}

// maxKeptFields bounds how many fields fit into memory that is kept.
const maxKeptFields = 64

// putFields gives back memory of fieldSpaces.
func putFields(fs *[]h2.Field) {
	if cap(*fs) > maxKeptFields {
		return
	}
	clear(*fs) // no reference to a call's metadata
	*fs = (*fs)[:0]
	fieldSpaces.Put(fs)
}

// fieldsSize is the size of a header list in bytes as RFC 9113 section 6.5.2 counts
// it.
func fieldsSize(fs []h2.Field) int {
	n := 0
	for i := range fs {
		n += len(fs[i].Name) + len(fs[i].Value) + 32
	}
	return n
}

// routes stores those of methods called without special options. It is read without a lock.
type routes struct {
	mu    sync.Mutex
	first atomic.Pointer[route]             // of the method called first: a map with one element takes 264 bytes
	m     atomic.Pointer[map[string]*route] // the others
}

// maxRoutes bounds the stored methods: a proxy may see any number.
const maxRoutes = 1024

func (b *routes) get(method string) *route {
	if r := b.first.Load(); r != nil && r.method == method {
		return r
	}
	if m := b.m.Load(); m != nil {
		return (*m)[method]
	}
	return nil
}

func (b *routes) put(r *route) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.first.CompareAndSwap(nil, r) {
		return
	}
	next := map[string]*route{r.method: r}
	if old := b.m.Load(); old != nil {
		if len(*old) >= maxRoutes {
			return
		}
		for k, v := range *old {
			next[k] = v
		}
	}
	b.m.Store(&next)
}

// route returns the data that calls of a method with the same options share on c. An empty authority is the connection's.
func (c *clientConn) route(method string, ci *callInfo, authority string) *route {
	cc := c.cc
	plain := !ci.special && authority == ""
	known, agent := c.routes, cc.opts.userAgent
	if ci.agent != nil {
		known, agent = &ci.agent.routes, ci.agent.name
		plain = plain && c.plain()
	}
	if plain {
		if r := known.get(method); r != nil {
			return r
		}
	}
	fs := []h2.Field{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: c.scheme},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: cmp.Or(authority, c.name)},
		{Name: "content-type", Value: header.ContentType(ci.subtype)},
		{Name: "user-agent", Value: agent + userAgent},
		{Name: "te", Value: "trailers"},
	}
	if ci.compressor != nil {
		fs = append(fs, h2.Field{Name: "grpc-encoding", Value: ci.compressor.Name()})
	}
	if accepts := ci.accepts(cc); accepts != "" {
		fs = append(fs, h2.Field{Name: "grpc-accept-encoding", Value: accepts})
	}
	r := &route{block: h2.NewBlock(fs...), size: fieldsSize(fs), method: method}
	if plain {
		known.put(r)
	}
	return r
}

// callFields appends the fields that differ from call to call: deadline, metadata, credentials, and the
// number of attempts.
func (cc *ClientConn) callFields(fs []h2.Field, q *request, conn *clientConn, previous int) ([]h2.Field, error) {
	if q.deadline {
		var space [12]byte
		fs = append(fs, h2.Field{Name: "grpc-timeout", Value: string(header.AppendTimeout(space[:0], time.Until(q.at)))})
	}
	if previous > 0 {
		fs = append(fs, h2.Field{Name: "grpc-previous-rpc-attempts", Value: strconv.Itoa(previous)})
	}
	return cc.appendCallMetadata(fs, q, conn.perRPC, conn.name, conn.peer.AuthInfo)
}

// appendCallMetadata appends the metadata of the credentials, perRPC and the call's, which get the connection's name and auth, and that of the
// context and of the pick. The order is grpc-go's: of several values of a key, servers often read the first alone.
func (cc *ClientConn) appendCallMetadata(fs []h2.Field, q *request, perRPC []credentials.PerRPCCredentials, name string, auth credentials.AuthInfo) ([]h2.Field, error) {
	md, _ := metadata.FromOutgoingContext(q.tagged)
	var err error
	if len(perRPC) > 0 || len(q.info.creds) > 0 {
		if err := checkMetadata(md); err != nil { // before a token is asked for, as in grpc-go
			return fs, err
		}
		if fs, err = cc.appendCredentials(fs, q, perRPC, name, auth); err != nil {
			return fs, err
		}
	}
	if fs, err = appendChecked(fs, md); err != nil {
		return fs, err
	}
	return appendChecked(fs, q.picked.md)
}

// appendCredentials appends the metadata of the per-RPC credentials. Of perRPC, the last with a key replaces the others, and what the call's
// credentials have is sent behind, as in grpc-go.
func (cc *ClientConn) appendCredentials(fs []h2.Field, q *request, perRPC []credentials.PerRPCCredentials, name string, auth credentials.AuthInfo) ([]h2.Field, error) {
	service := q.method
	if i := strings.LastIndexByte(service, '/'); i > 0 {
		service = service[:i]
	}
	audience := "https://" + strings.TrimSuffix(cmp.Or(q.authority(), name), ":443") + service
	ctx := credentials.NewContextWithRequestInfo(q.tagged, credentials.RequestInfo{Method: q.method, AuthInfo: auth})
	var err error
	start := len(fs)
	for _, p := range perRPC {
		if fs, err = appendToken(fs, start, ctx, p, audience, codes.Unauthenticated); err != nil {
			return fs, err
		}
	}
	start = len(fs)
	for _, p := range q.info.creds {
		if p.RequireTransportSecurity() && credentials.CheckSecurityLevel(auth, credentials.PrivacyAndIntegrity) != nil {
			return fs, status.Error(codes.Unauthenticated, insecureCredentials)
		}
		if fs, err = appendToken(fs, start, ctx, p, audience, codes.Internal); err != nil {
			return fs, err
		}
	}
	return fs, nil
}

// insecureCredentials is the text of the error for credentials that need a more secure connection.
const insecureCredentials = "transport: cannot send secure credentials on an insecure connection"

// appendToken appends the metadata of p, in place of fields of the same name from start on. other is the code of an error that is not a
// status; grpc-go has one for the credentials of a client and another for those of a call.
func appendToken(fs []h2.Field, start int, ctx context.Context, p credentials.PerRPCCredentials, audience string, other codes.Code) ([]h2.Field, error) {
	token, err := p.GetRequestMetadata(ctx, audience)
	if err != nil {
		st, ok := status.FromError(err)
		switch {
		case !ok:
			return fs, status.Errorf(other, "transport: per-RPC creds failed due to error: %v", err)
		case balance.Restricted(st.Code()):
			// gRFC A54: the application would take these codes for the server's.
			return fs, status.Errorf(codes.Internal, "transport: received per-RPC creds error with illegal status: %v", err)
		}
		return fs, err
	}
	for k, v := range token {
		k = strings.ToLower(k)
		if header.Reserved(k) {
			continue
		}
		if err := checkMetadata(metadata.MD{k: {v}}); err != nil {
			return fs, err
		}
		f := h2.Field{Name: k, Value: header.EncodeValue(k, v), Sensitive: true}
		if i := slices.IndexFunc(fs[start:], func(f h2.Field) bool { return f.Name == k }); i >= 0 {
			fs[start+i] = f
			continue
		}
		fs = append(fs, f)
	}
	sortFields(fs[start:])
	return fs, nil
}
