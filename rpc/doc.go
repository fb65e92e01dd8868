// Package rpc is a gRPC client and server for generated stubs, unchanged, that reads and writes messages
// without copies. A service's owner changes two lines,
//
//	grpc.NewServer(...)  ->  rpc.NewServer(...)
//	grpc.NewClient(...)  ->  rpc.NewClient(...)
//
// and keeps stubs, handlers, interceptors, credentials, codecs, compressors and
// stats handlers, which are grpc-go's own types.
//
// A [Server] is a grpc.ServiceRegistrar and a reflection.GRPCServer; a [ClientConn] is a
// grpc.ClientConnInterface. Options have grpc-go's names and meanings; [Pool] and [WithPool] set the memory
// pool (tarn.Shared otherwise).
//
// # Memory
//
// Messages are marshalled directly into pooled memory with space in front for the gRPC prefix and the HTTP/2
// frame header, and are sent by reference. A received message is unmarshalled from the receive buffer, which
// is freed at once. A handler or caller that passes *tarn.Chain or *tarn.Buffer to SendMsg and RecvMsg gets
// the bytes themselves, without a codec: SendMsg takes ownership and empties the variable, on every path
// (rule 2); the caller frees what RecvMsg stores.
//
// # Limitations
//
// See docs/rpc.md, "What is not there": no xDS.
package rpc
