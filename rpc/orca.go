package rpc

import (
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// The trailer and the message of a server's load report (gRFC A51).
const (
	loadKey     = "endpoint-load-metrics-bin"
	loadMessage = "xds.data.orca.v3.OrcaLoadReport"
)

// serverLoad is the load report in a trailer; nil without one and, as in grpc-go, when there are several or it is malformed. The message's type is looked up rather than
// imported: a program that does not link it has no balancer that could read it.
func serverLoad(trailer metadata.MD) any {
	vs := trailer[loadKey]
	if len(vs) != 1 {
		return nil
	}
	typ, err := protoregistry.GlobalTypes.FindMessageByName(loadMessage)
	if err != nil {
		return nil
	}
	m := typ.New().Interface()
	if proto.Unmarshal([]byte(vs[0]), m) != nil {
		return nil
	}
	return m
}
