// Package rpc is a gRPC client and server that generated stubs run on
// unchanged, reading and writing without copies. A service's owner changes two
// lines,
//
//	grpc.NewServer(...)  ->  rpc.NewServer(...)
//	grpc.NewClient(...)  ->  rpc.NewClient(...)
//
// and keeps stubs, handlers, interceptors, credentials, codecs, compressors and
// stats handlers, which are grpc-go's own types.
//
// A [Server] is a grpc.ServiceRegistrar and a reflection.GRPCServer; a
// [ClientConn] is a grpc.ClientConnInterface. Options carry grpc-go's names and
// meanings; [Pool] and [WithPool] name the memory pool (tarn.Shared otherwise).
//
// # Memory
//
// Messages are marshalled straight into pooled memory with room in front for the
// gRPC prefix and the HTTP/2 frame header, and leave by reference. What arrives
// is unmarshalled from the receive buffer and freed at once. A handler or caller
// that passes *tarn.Chain or *tarn.Buffer to SendMsg and RecvMsg gets the bytes
// themselves, without a codec: SendMsg takes ownership and empties the variable,
// on every path (rule 2); what RecvMsg stores is the caller's to free.
//
// # Limitations
//
// See docs/rpc.md, "What is not there": no xDS.
package rpc
