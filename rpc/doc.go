// Package rpc is a gRPC client and server for the unchanged stubs of protoc-gen-go-grpc, whose messages are received into
// and sent from the memory of a pool. A program that uses grpc-go changes two lines,
//
//	grpc.NewServer(...)  ->  rpc.NewServer(...)
//	grpc.NewClient(...)  ->  rpc.NewClient(...)
//
// and keeps stubs, handlers, interceptors, credentials, codecs, compressors, resolvers, balancers and
// stats handlers, which are grpc-go's own types.
//
// A [Server] is a grpc.ServiceRegistrar and a reflection.GRPCServer; a [ClientConn] is a
// grpc.ClientConnInterface. Options have grpc-go's names and meanings; [Pool] and [WithPool] set the memory
// pool (tarn.Shared otherwise). [AsGRPC] and [DialOptions] are for libraries that want a *grpc.ClientConn.
//
// The port of [Server.Serve] accepts gRPC-Web and Connect, too, and [Server.ServeHTTP] serves all three behind
// another server; clients speak them with [WithProtocol].
//
// # Memory
//
// A message is encoded into the pool's memory with space in front for the gRPC prefix and the HTTP/2
// frame header, and is sent by reference. A received message is decoded from the receive buffer, which
// is freed at once; what the decoded message holds is its own. A handler or caller that passes *tarn.Chain or *tarn.Buffer
// to SendMsg and RecvMsg gets the bytes themselves, without a codec: SendMsg takes ownership and empties the variable, on
// errors too; the caller frees what RecvMsg stores. [LendRequests], [LendResponse], [SendInPlace] and [SendMsgInPlace] avoid
// copies of long bytes fields.
//
// # Limitations
//
// xDS is in module rpc/xds, for clients alone. docs/reference/rpc.md lists what is missing ("What is not there"), and "What differs
// from grpc-go".
package rpc
