package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/bench/decode/logs"
	"github.com/tarn-go/tarn/bench/decode/logs/vt"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/hyper"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// contestant is a server: how it is made, and its handler.
type contestant struct {
	name   string
	server func() server
	handle handler
}

type server interface {
	grpc.ServiceRegistrar
	Serve(net.Listener) error
	Stop()
}

// handler decodes a request by dec, and answers it.
type handler func(dec func(any) error) (any, error)

// contestants begin with the one that the others are compared with.
var contestants = []contestant{
	{"grpc-go", grpcGo, generated},
	{"grpc-go, read", grpcGo, generatedRead},
	{"tarn", plain, generated},
	{"tarn, read", plain, generatedRead},
	{"tarn, LendRequests", lent, generated},
	{"tarn, LendStrings", views, generated},
	{"tarn, LendStrings, read", views, generatedRead},
	{"tarn, vtprotobuf", plain, vtprotobuf},
	{"tarn, vtprotobuf, LendStrings", views, vtprotobuf},
	{"tarn, hyper", lent, counted(compiled)},
	{"tarn, hyper, learned", lent, counted(learned)},
	{"tarn, hyper, learned, read", lent, fieldsRead(learned)},
	{"tarn, no decoding", plain, raw},
}

func grpcGo() server { return grpc.NewServer() }
func plain() server  { return rpc.NewServer() }
func views() server  { return rpc.NewServer(rpc.LendStrings(path)) }
func lent() server   { return rpc.NewServer(rpc.LendRequests(path)) }

func generated(dec func(any) error) (any, error) {
	in := new(logs.Batch)
	if err := dec(in); err != nil {
		return nil, err
	}
	return seen(len(in.Records), 0), nil
}

func generatedRead(dec func(any) error) (any, error) {
	in := new(logs.Batch)
	if err := dec(in); err != nil {
		return nil, err
	}
	n := 0
	for _, r := range in.Records {
		n += len(r.Service) + len(r.Host) + len(r.Level) + len(r.Logger) + len(r.Trace) + len(r.Message)
		for k, v := range r.Attributes {
			n += len(k) + len(v)
		}
	}
	return seen(len(in.Records), n), nil
}

func vtprotobuf(dec func(any) error) (any, error) {
	in := new(vt.Batch)
	if err := dec(in); err != nil {
		return nil, err
	}
	return seen(len(in.Records), 0), nil
}

var compiled = sync.OnceValue(func() *hyper.Type { return hyper.Compile((*logs.Batch)(nil).ProtoReflect().Descriptor()) })

// learned is compiled for batches like the client's.
var learned = sync.OnceValue(func() *hyper.Type {
	sample, err := proto.Marshal(batch())
	if err != nil {
		panic(err)
	}
	t, err := compiled().Learn(sample, sample)
	if err != nil {
		panic(err)
	}
	return t
})

func counted(of func() *hyper.Type) handler {
	return func(dec func(any) error) (any, error) {
		in := of().New()
		if err := dec(in); err != nil {
			return nil, err
		}
		return seen(in.Get(of().Field("records")).List().Len(), 0), nil
	}
}

func fieldsRead(of func() *hyper.Type) handler {
	return func(dec func(any) error) (any, error) {
		t := of()
		in := t.New()
		if err := dec(in); err != nil {
			return nil, err
		}
		list, n := in.Get(t.Field("records")).List(), 0
		fields := t.Field("records").Message().Fields()
		for i := range list.Len() {
			r := list.Get(i).Message()
			for k := range fields.Len() - 1 {
				n += len(r.Get(fields.Get(k)).String())
			}
			for k, v := range r.Get(fields.Get(fields.Len() - 1)).Map().Range {
				n += len(k.String()) + len(v.String())
			}
		}
		return seen(list.Len(), n), nil
	}
}

// raw takes the request as bytes.
func raw(dec func(any) error) (any, error) {
	var in tarn.Buffer
	if err := dec(&in); err != nil {
		return nil, err
	}
	n := in.Len()
	in.Free()
	return seen(0, n), nil
}

func seen(records, bytes int) *logs.Seen {
	return &logs.Seen{Records: int64(records), Bytes: int64(bytes)}
}

// serve runs a server until standard input ends. It prints its address, and answers each line of input with the number and bytes of
// its allocations.
func serve(name string) error {
	for _, c := range contestants {
		if c.name != name {
			continue
		}
		s := c.server()
		s.RegisterService(&grpc.ServiceDesc{ServiceName: "tarn.bench.decode.Logs", Methods: []grpc.MethodDesc{{MethodName: "Export",
			Handler: func(_ any, _ context.Context, dec func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				return c.handle(dec)
			}}}}, nil)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		fmt.Println(l.Addr())
		go func() {
			for in := bufio.NewScanner(os.Stdin); in.Scan(); {
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				fmt.Println(m.Mallocs, m.TotalAlloc)
			}
			s.Stop()
		}()
		return s.Serve(l)
	}
	return fmt.Errorf("there is no server %q", name)
}
