// Package tarn runs the conformance suite of Connect, gRPC and gRPC-Web (connectrpc.com/conformance) against servers and
// clients of package rpc, which the suite starts as programs: the test binary is both.
//
// The module's path is below the suite's, because the suite's messages and its runner are in internal packages.
package tarn
