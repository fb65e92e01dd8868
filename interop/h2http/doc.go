// Package h2http runs other people's programs and libraries against package h2http, and h2spec against package h2, too:
// command-line clients, a browser, nginx, Node.js, Python, h2spec, connect-go,
// grpc-gateway and grpc-go's handler.
package h2http
