// Package xds lets clients of package rpc get their routes, clusters and endpoints from an xDS control plane, as Istio, Envoy's control planes
// and Cloud Service Mesh have them. The resolver and the balancers are grpc-go's own; calls are package rpc's.
//
//	cc, err := rpc.NewClient("xds:///service", rpc.WithResolvers(xds.NewResolver()),
//		rpc.WithTransportCredentials(creds))
//
// The bootstrap is what the environment variables GRPC_XDS_BOOTSTRAP and GRPC_XDS_BOOTSTRAP_CONFIG name, as in grpc-go, or the text given to
// [Bootstrap]. Clients with different bootstraps may be in one program.
//
// The package imports google.golang.org/grpc/xds, which registers grpc-go's own resolver for the program's grpc-go clients, and the balancers.
// It registers nothing itself.
//
// grpc-go's resolver passes its routes under an internal key. They are read by reflection, and only if their types are those that are known:
// of grpc 1.83 and newer. With any other version of grpc each call fails with UNAVAILABLE and a text that names the version.
package xds
