// Package foreign runs servers and clients in other languages, and proxies, against Tarn, and each of them against
// grpc-go in the same place: what a call returns must be the same.
package foreign
