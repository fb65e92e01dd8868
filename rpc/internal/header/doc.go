// Package header holds gRPC's text formats in HTTP/2 header fields: grpc-timeout, grpc-message, metadata
// (with its "-bin" keys), the content type, and the tables that map HTTP and HTTP/2 failures to gRPC codes.
// It uses no connection and allocates only the strings it returns.
//
// The specification of all of them is "gRPC over HTTP2" (PROTOCOL-HTTP2.md of the gRPC project). No input
// from a peer makes a function panic.
package header
