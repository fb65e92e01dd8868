// Package web has the bytes of Connect (https://connectrpc.com/docs/protocol) and of gRPC-Web
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-WEB.md): what both sides of a call read and write in the fields and bodies of HTTP besides
// messages. It knows neither calls nor connections. Its functions are safe for concurrent use.
package web
