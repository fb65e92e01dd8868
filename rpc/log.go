package rpc

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"
)

// logger writes to grpc-go's log. It is made when the package is initialised, because grpclog keeps its components in a map without a lock.
var logger = grpclog.Component("rpc")

// warnOfTracing warns that a variable of grpc-go does not trace clients and servers of package rpc.
func warnOfTracing() {
	if grpc.EnableTracing {
		logger.Warning("grpc.EnableTracing has no effect: see ObserveCalls and WithObserveCalls")
	}
}
