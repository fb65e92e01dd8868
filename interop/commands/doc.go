// Package commands runs programs that users point at gRPC servers (grpcurl, grpc-health-probe, ghz) against Tarn's server and against
// grpc-go's: what they print and how they exit must be the same.
package commands
