package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestHTTPTable reads two runs of "tarn bench -json http", and a case that only one of them has.
func TestHTTPTable(t *testing.T) {
	name := filepath.Join(t.TempDir(), "http.json")
	h, err := readHTTP(name)
	if err != nil || h.table() != "Not measured yet.\n" {
		t.Fatalf("a missing file: %v, %q", err, h.table())
	}
	const runs = `{"started": "2026-11-02T07:08:09.123456789Z", "sections": [{"cases": [
	{"title": "Client", "metrics": [{"key": "cpu", "label": "time", "unit": "ns"}, {"key": "rate"}],
	 "rows": [{"name": "net/http", "values": {"cpu": 20000, "rate": 1}}, {"name": "tarn", "values": {"cpu": 8000}}]},
	{"title": "Idle", "metrics": [{"key": "size", "label": "heap", "unit": "bytes"}], "rows": [{"name": "net/http", "values": {"size": 20480}}]}]}]}
{"started": "2026-11-02T10:30:00+02:00", "sections": [{"cases": [
	{"title": "Client", "metrics": [{"key": "cpu", "label": "time", "unit": "ns"}],
	 "rows": [{"name": "net/http", "values": {"cpu": 30000}}, {"name": "tarn", "values": {"cpu": 9000}}]}]}]}`
	if err := os.WriteFile(name, []byte(runs), 0o600); err != nil {
		t.Fatal(err)
	}
	if h, err = readHTTP(name); err != nil {
		t.Fatal(err)
	}
	const want = `2 runs, begun at (UTC) 2026-11-02 07:08, 2026-11-02 08:30.

| work | | median (range) | of the first's |
|---|---|---:|---:|
| Client, time | net/http | 25.0 µs (20.0 µs–30.0 µs) |  |
|  | tarn | 8500 ns (8000 ns–9000 ns) | 0.35 (0.30–0.40) |
| Idle, heap | net/http | 20.0 KiB |  |
`
	if got := h.table(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := os.WriteFile(name, []byte(`{"sections": [{"cases": [{"title": "x"}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readHTTP(name); err == nil {
		t.Error("a case without values was read")
	}
}

// TestHTTPFirst compares with the contestant that a row of the README's table names.
func TestHTTPFirst(t *testing.T) {
	name := filepath.Join(t.TempDir(), "http.json")
	const run = `{"sections": [{"cases": [{"title": "HTTP/2 client, responses of 100 B, 128 callers", "metrics": [{"key": "cpu", "unit": "ns"}],
	 "rows": [{"name": "net/http", "values": {"cpu": 20000}}, {"name": "tarn", "values": {"cpu": 8000}}]}]}]}`
	if err := os.WriteFile(name, []byte(run), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := readHTTP(name)
	if err != nil {
		t.Fatal(err)
	}
	got := h.first()
	for _, want := range []string{
		"| client, 100 B: processor time a request, beside net/http's HTTP/2 | 8000 ns | 20.0 µs | 0.40 |\n",
		"| the same, beside nginx | not measured | | |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	got = h.verdicts()
	for _, want := range []string{
		"| client of nginx, 100 B, processor time, against net/http's HTTP/2 | ≤ 0.4× | 0.40, target met |\n",
		"| the same, round trip 10 ms, against net/http's HTTP/1.1 | ≥ 1× | not measured |\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
