package migrate

import (
	"go/ast"
	"go/types"
	"strconv"
)

// unnoticed has what to do about functions that still compile, and have no effect on clients and servers of package rpc: they act through
// grpc-go's internals.
var unnoticed = map[string]string{
	grpcPath + "/channelz/service.RegisterChannelzServiceToServer": "it does not list package rpc's clients and servers: use channelz.Register of rpc/channelz, with rpc.Channelz and rpc.WithChannelz",
	grpcPath + "/admin.Register": "its channelz does not list package rpc's clients and servers: give it channelz.Registrar(s, &z) of rpc/channelz, " +
		"with rpc.Channelz and rpc.WithChannelz",
	grpcPath + "/binarylog.SetSink":                           "it gets no calls of package rpc's clients and servers: use rpc.NewCallLog, with rpc.BinaryLog and rpc.WithBinaryLog",
	grpcPath + "/gcp/observability.Start":                     "it sees no calls of package rpc's clients and servers: use otelgrpc's or rpc/opentelemetry's options, or stay with grpc-go",
	grpcPath + "/stats/opentelemetry/csm.EnableObservability": "it sees no calls of package rpc's clients and servers: use rpc/opentelemetry's options, without csm's labels, or stay with grpc-go",
}

// xdsPath is the package whose import registers grpc-go's resolver of xDS.
const xdsPath = grpcPath + "/xds"

const xdsAdvice = "package rpc's clients do not resolve xds:/// by it: use rpc.WithResolvers(xds.NewResolver()) of module rpc/xds (docs/xds.md). Servers of xDS stay with grpc-go"

// leaveUnnoticed lists what the file uses of these.
func (f *file) leaveUnnoticed() {
	for _, spec := range f.ast.Imports {
		if path, err := strconv.Unquote(spec.Path.Value); err == nil && path == xdsPath {
			f.leave(spec, xdsAdvice)
		}
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		if !ok {
			return true
		}
		if fn, ok := f.pkg.TypesInfo.Uses[id].(*types.Func); ok && unnoticed[fn.FullName()] != "" {
			f.leave(id, fn.Pkg().Name()+"."+fn.Name()+": "+unnoticed[fn.FullName()])
		}
		return true
	})
}
