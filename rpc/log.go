package rpc

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/grpclog"
)

// logger writes to grpc-go's log. It is made when the package is initialised, because grpclog keeps its components in a map without a lock.
var logger = grpclog.Component("rpc")

// note writes what has become of the client's names to channelz and, at level info, to the log.
func (cc *ClientConn) note(format string, args ...any) {
	cc.entity.Log(format, args...)
	logger.Infof("client of %s: "+format, append([]any{cc.name}, args...)...)
}

// warn is note at level warning.
func (cc *ClientConn) warn(format string, args ...any) {
	cc.entity.Log(format, args...)
	logger.Warningf("client of %s: "+format, append([]any{cc.name}, args...)...)
}

// warnOfTracing warns that a variable of grpc-go does not trace clients and servers of package rpc.
func warnOfTracing() {
	if grpc.EnableTracing {
		logger.Warning("grpc.EnableTracing has no effect: see ObserveCalls and WithObserveCalls")
	}
}
