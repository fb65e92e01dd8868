package main

import "testing"

// TestWebTable: shares are those of the turns, and one server of a kind has a target.
func TestWebTable(t *testing.T) {
	if got := webTable(new(results)); got != "Not measured yet.\n" {
		t.Errorf("without results: %q", got)
	}
	r, err := read(t, `BenchmarkWeb/protocol=grpc/http=2/peer=connect 20000 50000 cpu-ns/op 40000 user-ns/op
BenchmarkWeb/protocol=grpc/http=2/peer=tarn 20000 15000 cpu-ns/op 10000 user-ns/op
BenchmarkWeb/protocol=grpc/http=2/peer=floor-canned 20000 10000 cpu-ns/op 5000 user-ns/op
BenchmarkWeb/protocol=grpc/http=2/peer=tarn 20000 18000 cpu-ns/op 10000 user-ns/op
BenchmarkWeb/protocol=grpc/http=2/peer=connect 20000 45000 cpu-ns/op 40000 user-ns/op
BenchmarkWeb/protocol=connect-json/http=1.1/peer=connect 20000 30000 cpu-ns/op 20000 user-ns/op
BenchmarkWeb/protocol=connect-json/http=1.1/peer=tarn 20000 27000 cpu-ns/op 20000 user-ns/op
BenchmarkWeb/protocol=connect-json/http=1.1/peer=tarn-serve 20000 15000 cpu-ns/op 10000 user-ns/op
BenchmarkWeb/protocol=connect/http=2/accept=gzip/peer=connect 20000 60000 cpu-ns/op 40000 user-ns/op
BenchmarkWeb/protocol=connect/http=2/accept=gzip/peer=tarn 20000 18000 cpu-ns/op 10000 user-ns/op
`)
	if err != nil {
		t.Fatal(err)
	}
	const want = "| call | server | processor time (range) | share of connect-go's (range) | target |\n|---|---|---:|---:|---|\n" +
		"| gRPC over HTTP/2 | connect-go on net/http | 47.5 µs (45.0 µs–50.0 µs) |  |  |\n" +
		"|  | `ServeHTTP` | 16.5 µs (15.0 µs–18.0 µs) | 0.35 (0.30–0.40) | ≤ 0.35, met |\n" +
		"|  | canned, in the goroutine that reads | 10.0 µs | 0.20 |  |\n" +
		"| Connect, JSON, over HTTP/1.1 | connect-go on net/http | 30.0 µs |  |  |\n" +
		"|  | `ServeHTTP` | 27.0 µs | 0.90 |  |\n" +
		"|  | `rpc.Server.Serve` | 15.0 µs | 0.50 | ≤ 0.60, met |\n" +
		"| Connect over HTTP/2, client accepts gzip | connect-go on net/http | 60.0 µs |  |  |\n" +
		"|  | `ServeHTTP` | 18.0 µs | 0.30 |  |\n"
	if got := webTable(r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
