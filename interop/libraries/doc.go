// Package libraries runs libraries that require grpc-go's types over package rpc: the OTLP exporter,
// grpc-gateway, HashiCorp's plugins, Dapr's client, and third-party resolvers.
package libraries
