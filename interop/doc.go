// Package interop runs grpc-go's own interop suite, by way of its package
// google.golang.org/grpc/interop, over Tarn: as client, as server, and as both,
// in plaintext and over TLS, plus the compression cases of gRPC's interop test
// descriptions. It is a separate module, so that users of Tarn do not inherit
// the suite's dependencies. Run it with go test. Its other packages have other
// peers; make test runs this one, foreign and generated.
package interop
