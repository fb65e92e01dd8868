// Package libraries runs libraries that want grpc-go's own types over package rpc: the OTLP exporter,
// grpc-gateway, HashiCorp's plugins, Dapr's client, and resolvers and balancers from the field.
package libraries
