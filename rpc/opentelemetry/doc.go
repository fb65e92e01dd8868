// Package opentelemetry is grpc-go's stats/opentelemetry for package rpc. It takes that package's Options
// and records the same instruments under the same scope ("grpc-go"), with the same attributes and values,
// and the same spans, so that views, dashboards and alerts need no change:
//
//	grpc.NewClient(target, opentelemetry.DialOption(o))  ->  rpc.NewClient(target, opentelemetry.DialOption(o))
//	grpc.NewServer(opentelemetry.ServerOption(o))        ->  rpc.NewServer(opentelemetry.ServerOption(o))
//
// with this package's DialOption and ServerOption. (grpc-go's own are opaque to package rpc.)
//
// Recorded are the metrics of calls and attempts (gRFC A66), those that balancers and resolvers register
// (gRFC A79), those of connections (gRFC A94, off by default), the custom label of gRFC A108, and the spans
// of gRFC A72. With module rpc/xds, attempts have the labels of gRFC A89: grpc.lb.locality, grpc.lb.backend_service, and those of the cluster's
// metadata. Cloud Service Mesh's plugin (package csm) is not supported.
package opentelemetry
