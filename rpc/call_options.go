package rpc

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"github.com/tarn-go/tarn/rpc/internal/message"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

// defaultReplay bounds the bytes a stream keeps for a retry, as in grpc-go.
const defaultReplay = 256 << 10

// callOptions are the options of one call. They are put together once, in Invoke and NewStream, before the first interceptor: what the
// last interceptor passes on is all that counts, as in grpc-go.
type callOptions struct {
	first *optionSum // the client's default options, for a call that no interceptor sees; otherwise none
	rest  []grpc.CallOption
}

// optionSum are options whose sum has been worked out.
type optionSum struct {
	info callInfo
	of   []grpc.CallOption
}

// given are the options of a call that no interceptor sees.
func (cc *ClientConn) given(opts []grpc.CallOption) callOptions {
	return callOptions{&cc.defaults, opts}
}

// passedOn are the options that an interceptor has passed on.
func (cc *ClientConn) passedOn(opts []grpc.CallOption) callOptions { return callOptions{cc.none, opts} }

// lists are the options in order. A call that has not begun may have no first ones.
func (o *callOptions) lists() [2][]grpc.CallOption {
	if o.first == nil {
		return [2][]grpc.CallOption{o.rest}
	}
	return [2][]grpc.CallOption{o.first.of, o.rest}
}

// all are the options in order, in one list.
func (o *callOptions) all() []grpc.CallOption {
	lists := o.lists()
	return slices.Concat(lists[0], lists[1])
}

// callInfo is the sum of the options of one call.
type callInfo struct {
	waitForReady bool
	waitSet      bool // an option says whether to wait; the service config does not count then
	recvSet      bool // an option sets maxRecv; otherwise it is the default
	forced       bool // codec was given, not looked up
	special      bool // the request's fixed fields are not the method's usual ones
	after        bool // an option asked for the end of the call
	json         bool // the JSON codec needs no registration
	maxRecv      int
	maxSend      int
	authority    string
	subtype      string
	codec        message.Codec
	compressor   encoding.Compressor
	takes        *acceptance // of responses' compressors; nil: all that are registered
	replay       int
	creds        []credentials.PerRPCCredentials
	agent        *agent    // user agent of a library; nil: the client's
	lending      *lending  // of the last LendResponse; nil: none
	lease        *lease    // of the call, made by lending; nil: responses are copied
	inPlace      func(any) // messages are sent in place, and this is called for each; nil: they are copied
}

func defaultCallInfo() callInfo {
	return callInfo{maxRecv: defaultMaxRecv, maxSend: math.MaxInt32, replay: defaultReplay, codec: message.Default()}
}

// sumOptions works out what the client's default options are together.
func (cc *ClientConn) sumOptions() error {
	d := &cc.defaults
	d.info = defaultCallInfo()
	d.info.json = cc.opts.protocol != GRPC
	d.of, cc.opts.callOptions = cc.opts.callOptions, nil
	if cc.none = d; len(d.of) == 0 {
		return nil
	}
	cc.none = &optionSum{info: d.info}
	if err := d.info.apply(d.of); err != nil {
		return err
	}
	if d.info.lending != nil {
		return fmt.Errorf("%w: caller set LendResponse, whose variable is one call's", ErrCallOption)
	}
	return nil
}

// apply adds opts to ci, all of them. The error, of the first that cannot be, fails the call: ignoring the option could change the call's
// meaning.
func (ci *callInfo) apply(opts []grpc.CallOption) (bad error) {
	for _, o := range opts {
		if err := ci.applyOne(o); bad == nil {
			bad = err
		}
	}
	return bad
}

func (ci *callInfo) applyOne(opt grpc.CallOption) error {
	switch o := opt.(type) {
	case lendResponse:
		ci.lending = o.lending
	case sendInPlace:
		ci.inPlace = o.done
	case grpc.FailFastCallOption:
		ci.waitForReady, ci.waitSet = !o.FailFast, true
	case grpc.MaxRecvMsgSizeCallOption:
		ci.maxRecv, ci.recvSet = o.MaxRecvMsgSize, true
	case grpc.MaxSendMsgSizeCallOption:
		ci.maxSend = o.MaxSendMsgSize
	case grpc.AuthorityOverrideCallOption:
		ci.authority, ci.special = o.Authority, true
	case grpc.PerRPCCredsCallOption:
		ci.creds = []credentials.PerRPCCredentials{o.Creds}
	case grpc.CompressorCallOption:
		ci.compress(o.CompressorType)
	case grpc.ContentSubtypeCallOption:
		ci.subtype, ci.special = strings.ToLower(o.ContentSubtype), true
	case grpc.ForceCodecCallOption:
		ci.force(message.V1{C: o.Codec, Subtype: strings.ToLower(o.Codec.Name())})
	case grpc.ForceCodecV2CallOption:
		if r, ok := o.CodecV2.(RawCodec); ok {
			ci.force(r.codec())
			break
		}
		ci.force(message.V2{C: o.CodecV2})
	case grpc.CustomCodecCallOption:
		ci.force(message.V1{C: namedCodec{o.Codec}}) // its name is not sent, as in grpc-go
	case grpc.MaxRetryRPCBufferSizeCallOption:
		ci.replay = o.MaxRetryRPCBufferSize
	case grpc.HeaderCallOption, grpc.TrailerCallOption, grpc.PeerCallOption, grpc.OnFinishCallOption:
		ci.after = true
	case agentOption:
		ci.agent = o.a
	case grpc.StaticMethodCallOption, *grpc.StaticMethodCallOption, grpc.EmptyCallOption, *grpc.EmptyCallOption, nil:
	default:
		return ci.foreign(opt)
	}
	return nil
}

// foreign decides on an option whose type is unexported or from another package. One that embeds grpc.EmptyCallOption
// carries data for interceptors and is ignored here. That its methods do nothing cannot be checked, so any
// type from outside package grpc is taken for such a one.
func (ci *callInfo) foreign(opt grpc.CallOption) error {
	if names, ok := grpcgo.AcceptedCompressors(opt); ok {
		return ci.take(names)
	}
	if grpcgo.IsOption(opt) {
		return status.Errorf(codes.Unimplemented, "rpc: caller's call option %T is not supported by this client", opt)
	}
	return nil
}

// compress sets the compressor. One that is not registered fails the call unless another option replaces it.
func (ci *callInfo) compress(name string) {
	if ci.compressor = nil; identity(name) {
		return
	}
	ci.special = true
	if ci.compressor = encoding.GetCompressor(name); ci.compressor == nil {
		ci.compressor = unregistered{name: name}
	}
}

// unregistered is a compressor that is not there.
type unregistered struct {
	encoding.Compressor
	name string
}

func (ci *callInfo) force(c message.Codec) {
	ci.codec, ci.forced, ci.special = c, true, true
}

// chooseCodec finds the codec after all options have been applied.
func (ci *callInfo) chooseCodec() error {
	switch {
	case ci.forced:
		if ci.subtype == "" {
			ci.subtype = ci.codec.Name()
		}
	case ci.subtype != "":
		find := message.ForSubtype
		if ci.json {
			find = message.OrJSON
		}
		c, ok := find(ci.subtype)
		if !ok {
			return status.Errorf(codes.Internal, "no codec registered for content-subtype %s", ci.subtype)
		}
		ci.codec = c
	}
	return nil
}

// namedCodec adapts grpc's oldest interface of codecs to its second one.
type namedCodec struct{ grpc.Codec }

// Name calls String, its name in the oldest interface.
func (c namedCodec) Name() string { return c.Codec.String() }
