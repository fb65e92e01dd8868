package tarn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"connectrpc.com/conformance/internal"
	"connectrpc.com/conformance/internal/compression"
	conformance "connectrpc.com/conformance/internal/gen/proto/go/connectrpc/conformance/v1"
	"connectrpc.com/conformance/internal/grpcutil"
	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/h2http"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// callsAtOnce is how many calls of the suite the client makes at a time.
const callsAtOnce = 16

// client is the client under test: it makes each call that it reads and writes the result.
func (p *peer) client() error {
	c := &clients{pool: tarntest.NewPool(p), open: map[string]*rpc.ClientConn{}}
	p.Cleanup(c.close)
	in, out := p.codec.NewDecoder(os.Stdin), p.codec.NewEncoder(os.Stdout)
	var writing sync.Mutex
	var calls sync.WaitGroup
	defer calls.Wait()
	slots := make(chan struct{}, callsAtOnce)
	for {
		req := new(conformance.ClientCompatRequest)
		if err := in.DecodeNext(req); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		slots <- struct{}{}
		calls.Go(func() {
			defer func() { <-slots }()
			res := &conformance.ClientCompatResponse{TestName: req.TestName}
			result, err := c.call(req)
			if err != nil {
				res.Result = &conformance.ClientCompatResponse_Error{Error: &conformance.ClientErrorResult{Message: err.Error()}}
			} else {
				res.Result = &conformance.ClientCompatResponse_Response{Response: result}
			}
			writing.Lock()
			defer writing.Unlock()
			if err := out.Encode(res); err != nil {
				panic(err) // the runner has gone
			}
		})
	}
}

// clients are the rpc clients, one for each server and its settings.
type clients struct {
	pool *tarn.Pool
	mu   sync.Mutex
	open map[string]*rpc.ClientConn
	ends []func()
}

func (c *clients) close() {
	for _, cc := range c.open {
		cc.Close()
	}
	for _, end := range c.ends {
		end()
	}
}

// conn returns the client for a call.
func (c *clients) conn(req *conformance.ClientCompatRequest) (*rpc.ClientConn, error) {
	at := net.JoinHostPort(req.Host, strconv.Itoa(int(req.Port)))
	key := fmt.Sprint(at, req.Protocol, req.HttpVersion)
	c.mu.Lock()
	defer c.mu.Unlock()
	if cc := c.open[key]; cc != nil {
		return cc, nil
	}
	protocol, ok := map[conformance.Protocol]rpc.Protocol{
		conformance.Protocol_PROTOCOL_GRPC: rpc.GRPC, conformance.Protocol_PROTOCOL_GRPC_WEB: rpc.GRPCWeb, conformance.Protocol_PROTOCOL_CONNECT: rpc.Connect,
	}[req.Protocol]
	if !ok {
		return nil, fmt.Errorf("protocol %v", req.Protocol)
	}
	two := req.HttpVersion == conformance.HTTPVersion_HTTP_VERSION_2
	opts := []rpc.DialOption{rpc.WithPool(c.pool), rpc.WithProtocol(protocol)}
	if protocol == rpc.Connect {
		opts = append(opts, rpc.WithHTTPGet())
	}
	switch {
	case len(req.ServerTlsCert) > 0:
		conf, err := internal.NewClientTLSConfig(req.ServerTlsCert, req.ClientTlsCreds.GetCert(), req.ClientTlsCreds.GetKey())
		if err != nil {
			return nil, err
		}
		conf.NextProtos = alpn(two)
		opts = append(opts, rpc.WithTransportCredentials(credentials.NewTLS(conf)))
	case two && protocol != rpc.GRPC:
		rt := &h2http.Transport{DisableCompression: true, Config: h2http.Config{Pool: c.pool}}
		c.ends = append(c.ends, rt.CloseIdleConnections)
		at = "http://" + at
		opts = append(opts, rpc.WithRoundTripper(rt))
	default:
		opts = append(opts, rpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	cc, err := rpc.NewClient(at, opts...)
	if err == nil {
		c.open[key] = cc
	}
	return cc, err
}

// call makes one call.
func (c *clients) call(req *conformance.ClientCompatRequest) (*conformance.ClientResponseResult, error) {
	cc, err := c.conn(req)
	if err != nil {
		return nil, err
	}
	cancels, err := internal.GetCancelTiming(req.Cancel)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if req.TimeoutMs != nil {
		ctx, cancel = context.WithTimeout(ctx, milliseconds(*req.TimeoutMs))
		defer cancel()
	}
	a := &attempt{req: req, cc: cc, cancels: cancels, cancel: cancel,
		ctx: metadata.NewOutgoingContext(ctx, grpcutil.ConvertProtoHeaderToMetadata(req.RequestHeaders))}
	for _, m := range req.RequestMessages {
		in, err := m.UnmarshalNew()
		if err != nil {
			return nil, err
		}
		a.in = append(a.in, in)
	}
	method, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(req.GetService() + "." + req.GetMethod()))
	if err != nil {
		return nil, err
	}
	if a.out, err = protoregistry.GlobalTypes.FindMessageByName(method.(protoreflect.MethodDescriptor).Output().FullName()); err != nil {
		return nil, err
	}
	a.opts = []grpc.CallOption{grpc.CallContentSubtype(map[conformance.Codec]string{conformance.Codec_CODEC_PROTO: "proto", conformance.Codec_CODEC_JSON: "json"}[req.Codec])}
	if name := compressionName(req.Compression); name != "" {
		a.opts = append(a.opts, grpc.UseCompressor(name))
	}
	if req.MessageReceiveLimit > 0 {
		a.opts = append(a.opts, grpc.MaxCallRecvMsgSize(int(req.MessageReceiveLimit)))
	}
	path := "/" + req.GetService() + "/" + req.GetMethod()
	if req.StreamType == conformance.StreamType_STREAM_TYPE_UNARY {
		return a.unary(path), nil
	}
	return a.stream(path), nil
}

// attempt is one call of the suite.
type attempt struct {
	req     *conformance.ClientCompatRequest
	cc      *rpc.ClientConn
	cancels *internal.CancelTiming
	ctx     context.Context
	cancel  context.CancelFunc
	opts    []grpc.CallOption
	in      []proto.Message
	out     protoreflect.MessageType
	result  conformance.ClientResponseResult
}

func (a *attempt) unary(path string) *conformance.ClientResponseResult {
	if after := a.cancels.AfterCloseSendMs; after >= 0 {
		defer time.AfterFunc(milliseconds(after), a.cancel).Stop()
	}
	var header, trailer metadata.MD
	out := a.out.New().Interface()
	err := a.cc.Invoke(a.ctx, path, a.in[0], out, append(a.opts, grpc.Header(&header), grpc.Trailer(&trailer))...)
	if err == nil {
		a.add(out)
	}
	return a.end(err, header, trailer)
}

func (a *attempt) stream(path string) *conformance.ClientResponseResult {
	desc := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	switch a.req.StreamType {
	case conformance.StreamType_STREAM_TYPE_CLIENT_STREAM:
		desc.ServerStreams = false
	case conformance.StreamType_STREAM_TYPE_SERVER_STREAM:
		desc.ClientStreams = false
	}
	s, err := a.cc.NewStream(a.ctx, desc, path, a.opts...)
	if err != nil {
		return a.end(err, nil, nil)
	}
	err = a.talk(s, desc)
	header, _ := s.Header() // its error is the call's
	return a.end(err, header, s.Trailer())
}

// talk sends all messages and receives all responses. It sleeps only where the suite's
// request demands a delay.
func (a *attempt) talk(s grpc.ClientStream, desc *grpc.StreamDesc) error {
	for i, m := range a.in {
		if desc.ClientStreams {
			time.Sleep(milliseconds(a.req.RequestDelayMs))
		}
		if err := s.SendMsg(m); err != nil {
			a.result.NumUnsentRequests = int32(len(a.in) - i)
			break // the status is received
		}
		if a.req.StreamType != conformance.StreamType_STREAM_TYPE_FULL_DUPLEX_BIDI_STREAM {
			continue
		}
		if err := a.receive(s); err != nil {
			return ended(err)
		}
	}
	if a.cancels.BeforeCloseSend != nil {
		a.cancel()
	}
	// A failure is the call's, whose status is received.
	_ = s.CloseSend()
	if after := a.cancels.AfterCloseSendMs; after >= 0 {
		time.Sleep(milliseconds(after))
		a.cancel()
	}
	for {
		err := a.receive(s)
		if err != nil || !desc.ServerStreams {
			return ended(err)
		}
	}
}

// receive receives one response.
func (a *attempt) receive(s grpc.ClientStream) error {
	out := a.out.New().Interface()
	if err := s.RecvMsg(out); err != nil {
		return err
	}
	a.add(out)
	if len(a.result.Payloads) == a.cancels.AfterNumResponses {
		a.cancel()
	}
	return nil
}

// add adds a response to the result.
func (a *attempt) add(out proto.Message) {
	var payload *conformance.ConformancePayload
	if has, ok := out.(interface {
		GetPayload() *conformance.ConformancePayload
	}); ok {
		payload = has.GetPayload()
	}
	if payload == nil {
		payload = new(conformance.ConformancePayload)
	}
	a.result.Payloads = append(a.result.Payloads, payload)
}

// end completes the result.
func (a *attempt) end(err error, header, trailer metadata.MD) *conformance.ClientResponseResult {
	a.result.Error = grpcutil.ConvertGrpcToProtoError(err)
	a.result.ResponseHeaders = grpcutil.ConvertMetadataToProtoHeader(header)
	a.result.ResponseTrailers = grpcutil.ConvertMetadataToProtoHeader(trailer)
	return &a.result
}

// ended is the error of a call whose responses have ended with err.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func milliseconds[T int | uint32](n T) time.Duration { return time.Duration(n) * time.Millisecond }

// alpn is what a client offers: package credentials adds "h2".
func alpn(two bool) []string {
	if two {
		return nil
	}
	return []string{"http/1.1"}
}

// compressionName is the name of a compression; "" for none.
func compressionName(c conformance.Compression) string {
	switch c {
	case conformance.Compression_COMPRESSION_GZIP:
		return compression.Gzip
	case conformance.Compression_COMPRESSION_BR:
		return compression.Brotli
	case conformance.Compression_COMPRESSION_ZSTD:
		return compression.Zstd
	case conformance.Compression_COMPRESSION_DEFLATE:
		return compression.Deflate
	case conformance.Compression_COMPRESSION_SNAPPY:
		return compression.Snappy
	}
	return ""
}
