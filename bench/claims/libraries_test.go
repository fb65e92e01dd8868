package main

import "testing"

// TestLibraryTable: quotients are those of the turns, and only rpc has targets.
func TestLibraryTable(t *testing.T) {
	if got := libraryTable(new(results)); got != "Not measured yet.\n" {
		t.Errorf("without results: %q", got)
	}
	r, err := read(t, `BenchmarkPutGet/peer=grpc-2 1000 200000 ns/op 100.0 cpu-us/op 9000 B/op 200 allocs/op
BenchmarkPutGet/peer=tarn-2 1000 160000 ns/op 60.0 cpu-us/op 3000 B/op 50 allocs/op
BenchmarkPutGet/peer=floor-2 1000 100000 ns/op 50.0 cpu-us/op 3000 B/op 40 allocs/op
BenchmarkPutGet/peer=tarn-2 1000 200000 ns/op 66.0 cpu-us/op 3000 B/op 50 allocs/op
BenchmarkPutGet/peer=grpc-2 1000 300000 ns/op 120.0 cpu-us/op 9000 B/op 200 allocs/op
BenchmarkDapr/peer=grpc-2 1000 50000 ns/op 20.0 cpu-us/op 9000 B/op 80 allocs/op
BenchmarkDapr/peer=tarn-2 1000 25000 ns/op 8.0 cpu-us/op 3000 B/op 4 allocs/op
`)
	if err != nil {
		t.Fatal(err)
	}
	const want = "| | | time of a call (range) | calls a second | client's processor time | allocations | target |\n|---|---|---:|---|---|---|---|\n" +
		"| etcd: a put and a get of 100 bytes, etcd of two members without fsync | stock | 250 (200–300) µs |  |  | 200 |  |\n" +
		"|  | rpc | 180 (160–200) µs | 1.38 (1.25–1.50) | 0.57 (0.55–0.60) | 50 (0.25) | calls ≥ 1.3, met; allocations ≤ 0.6, met |\n" +
		"|  | floor | 100 (100–100) µs | 2.00 | 0.50 | 40 (0.20) |  |\n" +
		"| Dapr: a value of 100 bytes | stock | 50 (50–50) µs |  |  | 80 |  |\n" +
		"|  | rpc | 25 (25–25) µs | 2.00 | 0.40 | 4 (0.05) |  |\n"
	if got := libraryTable(r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
