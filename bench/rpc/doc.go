// Package rpc measures gRPC: Tarn's runtime, grpc-go with its defaults and tuned, and connect-go, all of
// them with the same generated messages over the loopback interface, client and server in one
// process.
//
//	BenchmarkUnary   one call, as many bytes each way
//	BenchmarkStream  one message each way on a stream that stays open
//	BenchmarkFloor   the same calls and messages without gRPC and HTTP/2: a lower bound for every runtime
//
// An operation is one call, or one message each way. Beside ns/op, which is the time between
// completions, each reports calls/s, the latencies that half and 99 in 100 of the calls stayed
// under, and the allocations and bytes of both sides together.
//
// The tuned grpc-go has static flow-control windows (so no bandwidth estimation, whose pings cost
// system calls), a stream worker for each processor, shared write buffers, and Tarn's pool through
// package adapt.
package rpc
