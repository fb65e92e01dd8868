// Package header holds the text forms gRPC gives to what it says in HTTP/2
// header fields: grpc-timeout, grpc-message, metadata (with its "-bin" keys),
// the content type, and the tables that map HTTP and HTTP/2 failures to gRPC
// codes. It knows no connection and allocates only the strings it returns.
//
// The source for all of it is "gRPC over HTTP2" (PROTOCOL-HTTP2.md of the gRPC
// project). Nothing here panics on what a peer sent.
package header
