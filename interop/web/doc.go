// Package web runs clients of gRPC-Web and of the Connect protocol that others wrote against
// rpc.Server.ServeHTTP: connect-go, connect-es and grpc-web in Node, curl.
package web
