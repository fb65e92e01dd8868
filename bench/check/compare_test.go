package main

import (
	"strings"
	"testing"
)

// machines are how fast the machine is in each measurement of each turn: twice as slow once, in the middle of a turn.
var machines = []pair[float64]{{1, 1}, {1, 0.5}, {0.9, 1}, {1, 1.1}, {0.6, 0.6}}

// measured returns turns in which Tarn's results of the later commit are as many times as good as given for each case.
func measured(change map[string]float64) []turn {
	var turns []turn
	for _, m := range machines {
		var t turn
		t.Commit = pair[string]{"base", "later"}
		for _, side := range []struct {
			to      *report
			machine float64
			change  func(string) float64
		}{{&t.Old, m.Old, func(string) float64 { return 1 }}, {&t.New, m.New, func(title string) float64 { return change[title] }}} {
			rate := func(title string, peers ...float64) testCase {
				c := testCase{Title: title, Metrics: []metric{{Key: "rate", Label: "calls/s", Better: higher}}}
				c.Rows = append(c.Rows, result{"tarn", tarn, map[string]float64{"rate": 100 * side.machine * side.change(title)}})
				for i, p := range peers {
					c.Rows = append(c.Rows, result{[]string{"grpc-go", "tuned"}[i], "peer", map[string]float64{"rate": p * side.machine}})
				}
				return c
			}
			took := testCase{Title: "took", Metrics: []metric{{Key: "ns", Label: "time", Better: "lower"}}, Rows: []result{
				{"tarn", tarn, map[string]float64{"ns": 10 / side.machine / side.change("took")}},
				{"sync.Pool", "peer", map[string]float64{"ns": 8 / side.machine}},
			}}
			side.to.Sections = []section{{Name: "rpc", Cases: []testCase{rate("calls", 50, 60), rate("bytes", 200), took}}}
		}
		turns = append(turns, t)
	}
	return turns
}

// A fall of 10 % is found, whichever way the metric improves; the machine's changes, and falls of 3 %, are not.
func TestFalls(t *testing.T) {
	for _, c := range []struct {
		change map[string]float64
		want   []string
	}{
		{map[string]float64{"calls": 1, "bytes": 1, "took": 1}, nil},
		{map[string]float64{"calls": 0.9, "bytes": 1, "took": 1}, []string{"calls"}},
		{map[string]float64{"calls": 1, "bytes": 1, "took": 0.9}, []string{"took"}},
		{map[string]float64{"calls": 0.97, "bytes": 0.5, "took": 1.5}, []string{"bytes"}},
		{map[string]float64{"calls": 0.9, "bytes": 0.8, "took": 0.7}, []string{"calls", "bytes", "took"}},
	} {
		rows, missing := compare(measured(c.change))
		var got []string
		for _, r := range rows {
			if r.fell() {
				got = append(got, r.title)
			}
		}
		if strings.Join(got, " ") != strings.Join(c.want, " ") || len(missing) != 0 || len(rows) != 3 {
			t.Errorf("%v: fell: %q, want %q; missing %q", c.change, got, c.want, missing)
		}
	}
}

// The output begins with the falls, the deepest first, and what is behind.
func TestPrint(t *testing.T) {
	turns := measured(map[string]float64{"calls": 0.9, "bytes": 1, "took": 0.5})
	var b strings.Builder
	if err := print(&b, turns); err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, want := range []string{
		"# later beside base\n",
		"**2 of 3 rows fell by more than 5 %.**",
		"- rpc: took, tarn: 0.5 (0.5–0.5), in every turn; alone 0.5 (0.25–0.556)\n",
		"- rpc: calls, tarn: 0.9 (0.9–0.9), in every turn",
		"**Ahead of its peers in 2 of 4 comparisons, behind in 2.**",
		"- rpc: bytes, tarn, against grpc-go: 0.5 (0.5–0.5)\n",
		"- rpc: took, tarn, against sync.Pool: 0.4 (0.4–0.4)\n",
		"| rpc: calls, tarn | calls/s | 0.9 (0.9–0.9) | 0.9 (0.45–1) | grpc-go | 2 (2–2) | 1.8 (1.8–1.8) |\n| | | | | tuned |",
	} {
		i := strings.Index(b.String()[at:], want)
		if i < 0 {
			t.Fatalf("no %q after %q in\n%s", want, b.String()[:at], b.String())
		}
		at += i
	}
}

// A row that the base does not have is named, and did not fall.
func TestNewRow(t *testing.T) {
	turns := measured(map[string]float64{"calls": 1, "bytes": 1, "took": 1})
	for i := range turns {
		s := &turns[i].Old.Sections[0]
		s.Cases = s.Cases[:2]
	}
	rows, missing := compare(turns)
	if len(missing) != 1 || missing[0] != "rpc: took: tarn" {
		t.Errorf("%q", missing)
	}
	for _, r := range rows {
		if r.fell() {
			t.Errorf("%s fell", r.title)
		}
	}
	if p := rows[2].peers; len(p) != 1 || p[0].New.Median != 0.8 {
		t.Errorf("%+v", p)
	}
}
