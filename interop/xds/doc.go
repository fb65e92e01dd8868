// Package xds has tests of module rpc/xds with a control plane of go-control-plane, beside grpc-go's own client.
package xds
