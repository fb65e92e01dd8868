// Command table reads results of Go benchmarks whose names end in peer=NAME and prints a Markdown table for each unit: a row
// for each benchmark, a column for each peer, medians with the lowest and the highest, and Tarn's median divided by the column's.
//
//	go test -run '^$' -bench Split -count 5 . | go run ./table
//	go run ./table -unit cpu-ns/op -first tarn results.txt
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchunit"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("table: ")
	unit := flag.String("unit", "", "only this `unit`, such as sec/op, B/op or cpu-sec/op; all otherwise")
	first := flag.String("first", "tarn", "the `peer` whose median is divided by those of the others")
	flag.Parse()
	files := benchfmt.Files{Paths: flag.Args(), AllowStdin: true}
	r, err := read(&files)
	if err != nil {
		log.Fatal(err)
	}
	for _, u := range r.units {
		if *unit == "" || *unit == u {
			r.print(os.Stdout, u, *first)
		}
	}
}

// series names the values of one benchmark, peer and unit.
type series struct{ bench, peer, unit string }

// results are the values of all series. The lists have names in the order in which they were met.
type results struct {
	config                []string
	benches, peers, units []string
	values                map[series][]float64
}

// read collects what files has. A line that is no result of a benchmark is an error only if it is malformed.
func read(files *benchfmt.Files) (*results, error) {
	r := &results{values: map[series][]float64{}}
	add := func(list *[]string, s string) {
		if !slices.Contains(*list, s) {
			*list = append(*list, s)
		}
	}
	for files.Scan() {
		switch rec := files.Result().(type) {
		case *benchfmt.SyntaxError:
			return nil, rec
		case *benchfmt.Result:
			name, peer, _ := strings.Cut(string(rec.Name), "/peer=")
			peer, rest, _ := strings.Cut(peer, "/")
			if procs := strings.LastIndexByte(peer, '-'); procs > 0 && strings.Trim(peer[procs+1:], "0123456789") == "" {
				peer = peer[:procs]
			}
			name = strings.Trim(name+"/"+rest, "/")
			add(&r.benches, name)
			add(&r.peers, peer)
			for _, c := range []string{"cpu", "goos", "goarch"} {
				if v := rec.GetConfig(c); v != "" {
					add(&r.config, c+": "+v)
				}
			}
			for _, v := range rec.Values {
				add(&r.units, v.Unit)
				k := series{name, peer, v.Unit}
				r.values[k] = append(r.values[k], v.Value)
			}
		}
	}
	if err := files.Err(); err != nil {
		return nil, err
	}
	if len(r.benches) == 0 {
		return nil, errors.New("there are no results of benchmarks")
	}
	return r, nil
}

// print writes the table of one unit. A ratio is the median of first divided by the column's, as everywhere in the pages.
func (r *results) print(w io.Writer, unit, first string) {
	fmt.Fprintf(w, "%s, median (lowest–highest), and %s's divided by the column's (×); %s\n\n| benchmark |", unit, first, strings.Join(r.config, ", "))
	for _, p := range r.peers {
		fmt.Fprintf(w, " %s |", p)
	}
	fmt.Fprintf(w, "\n|---|%s\n", strings.Repeat("---:|", len(r.peers)))
	for _, b := range r.benches {
		own, compared := summarize(r.values[series{b, first, unit}], unit)
		row, any := "| "+b+" |", false
		for _, p := range r.peers {
			median, text := summarize(r.values[series{b, p, unit}], unit)
			if any = any || text != "–"; median > 0 && p != first && compared != "–" {
				text += fmt.Sprintf(", %.2f×", own/median)
			}
			row += " " + text + " |"
		}
		if any {
			fmt.Fprintln(w, row)
		}
	}
	fmt.Fprintln(w)
}

// summarize returns the median of vs, and it with the range as text; "–" for no values.
func summarize(vs []float64, unit string) (float64, string) {
	if len(vs) == 0 {
		return 0, "–"
	}
	vs = slices.Sorted(slices.Values(vs))
	low, high := vs[0], vs[len(vs)-1]
	m := (vs[(len(vs)-1)/2] + vs[len(vs)/2]) / 2
	class := benchunit.ClassOf(unit)
	if low == high {
		return m, benchunit.Scale(m, class)
	}
	return m, fmt.Sprintf("%s (%s–%s)", benchunit.Scale(m, class), benchunit.Scale(low, class), benchunit.Scale(high, class))
}
