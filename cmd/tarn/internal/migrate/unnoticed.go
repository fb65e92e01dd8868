package migrate

import (
	"go/ast"
	"go/constant"
	"strconv"
)

// unnoticed has what to do about functions and variables that still compile, and have no effect on clients and servers of package rpc: they act through
// grpc-go's internals.
var unnoticed = map[string]string{
	grpcPath + "/channelz/service.RegisterChannelzServiceToServer": "it does not list package rpc's clients and servers: use channelz.Register of rpc/channelz, with rpc.Channelz and rpc.WithChannelz",
	grpcPath + "/admin.Register": "its channelz does not list package rpc's clients and servers: give it channelz.Registrar(s, &z) of rpc/channelz, " +
		"with rpc.Channelz and rpc.WithChannelz",
	grpcPath + "/binarylog.SetSink":                           "it gets no calls of package rpc's clients and servers: use rpc.NewCallLog, with rpc.BinaryLog and rpc.WithBinaryLog",
	grpcPath + "/gcp/observability.Start":                     "it sees no calls of package rpc's clients and servers: use otelgrpc's or rpc/opentelemetry's options, or stay with grpc-go",
	grpcPath + "/stats/opentelemetry/csm.EnableObservability": "it sees no calls of package rpc's clients and servers: use rpc/opentelemetry's options, without csm's labels, or stay with grpc-go",
	grpcPath + "/profiling/service.Init":                      "it profiles no calls of package rpc's clients and servers",
	grpcPath + "/profiling.Enable":                            "it profiles no calls of package rpc's clients and servers",
	grpcPath + "/experimental.SetDefaultBufferPool":           "package rpc's clients and servers do not use it: use rpc.Pool and rpc.WithPool",
	grpcPath + ".EnableTracing":                               "it does not trace calls of package rpc's clients and servers: use rpc.ObserveCalls and rpc.WithObserveCalls",
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
		switch n := n.(type) {
		case *ast.AssignStmt:
			return !f.isFalse(n)
		case *ast.Ident:
			obj := f.pkg.TypesInfo.Uses[n]
			if obj == nil || obj.Pkg() == nil || obj.Parent() != obj.Pkg().Scope() {
				return true
			}
			if advice := unnoticed[obj.Pkg().Path()+"."+obj.Name()]; advice != "" {
				f.leave(n, obj.Pkg().Name()+"."+obj.Name()+": "+advice)
			}
		}
		return true
	})
}

// isFalse reports whether a statement only sets a variable to false, as programs do with grpc.EnableTracing, whose default was once true.
func (f *file) isFalse(set *ast.AssignStmt) bool {
	if len(set.Rhs) != 1 {
		return false
	}
	v := f.pkg.TypesInfo.Types[set.Rhs[0]].Value
	return v != nil && v.Kind() == constant.Bool && !constant.BoolVal(v)
}
