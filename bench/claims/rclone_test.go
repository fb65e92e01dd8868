package main

import "testing"

// TestRcloneTable: ratios are those of the turns, and each copy is compared with the target.
func TestRcloneTable(t *testing.T) {
	if got := rcloneTable(new(results)); got != "Not measured yet.\n" {
		t.Errorf("without results: %q", got)
	}
	r, err := read(t, `BenchmarkCopy/mode=plain/files=large/op=put/peer=go-smb2-2 1 2600000000 ns/op 3000000000 cpu-ns/op
BenchmarkCopy/mode=plain/files=large/op=put/peer=tarn-2 1 2000000000 ns/op 2000000000 cpu-ns/op
BenchmarkCopy/mode=plain/files=large/op=put/peer=tarn-2 1 2000000000 ns/op 2000000000 cpu-ns/op
BenchmarkCopy/mode=plain/files=large/op=put/peer=go-smb2-2 1 3000000000 ns/op 3600000000 cpu-ns/op
BenchmarkCopy/mode=encrypted/files=small/op=get/peer=go-smb2-2 1 2400000000 ns/op 1000000000 cpu-ns/op
BenchmarkCopy/mode=encrypted/files=small/op=get/peer=tarn-2 1 2000000000 ns/op 800000000 cpu-ns/op
`)
	if err != nil {
		t.Fatal(err)
	}
	const want = "| copy | as shipped, s | with `smb/gosmb2`, s | ratio | ratio of processor time |\n|---|---|---|---|---|\n" +
		"| put 1 GiB, in the clear | 2.80 (2.60–3.00) | 2.00 (2.00–2.00) | 1.40× (1.30–1.50), met | 1.65 (1.50–1.80) |\n" +
		"| get 2,000 files, encrypted | 2.40 | 2.00 | 1.20× (1.20–1.20), **missed** | 1.25 |\n"
	if got := rcloneTable(r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
