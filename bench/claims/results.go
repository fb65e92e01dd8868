package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// results are what benchmarks printed: every value, by benchmark (without its peer), peer and unit.
type results struct {
	values map[key][]float64
	order  []string // the benchmarks without their peers, as they came first
	runs   []fileRun
}

// fileRun is how a file of results was made.
type fileRun struct {
	text string // when and with what, at each time by one turn where no number follows
	cpu  string // the processor; "": the file does not name it
}

type key struct{ bench, peer, unit string }

var procs = regexp.MustCompile(`-\d+$`)

func (r *results) read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if r.values == nil {
		r.values = map[key][]float64{}
	}
	made := fileRun{text: strings.TrimSuffix(filepath.Base(name), ".txt") + ":"}
	s := bufio.NewScanner(f)
	for s.Scan() {
		line := s.Text()
		if cpu, ok := strings.CutPrefix(line, "cpu: "); ok {
			made.cpu = cpu
		}
		if note, ok := strings.CutPrefix(line, "# go version "); ok {
			made.text += later(made.text, note)
		}
		if note, ok := strings.CutPrefix(line, "# -bench "); ok {
			if turns := note[strings.LastIndex(note, ","):]; turns != ", 1 turns" {
				made.text += turns
			}
		}
		if strings.HasPrefix(line, "Benchmark") {
			if err := r.add(line); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	r.runs = append(r.runs, made)
	return s.Err()
}

// later returns the part of note, the heading of a run, that the line run does not contain yet. For turns
// that were added at another time that is the time.
func later(run, note string) string {
	at := strings.LastIndex(note, ", ")
	if at >= 0 && strings.Contains(run, note[:at]) {
		return ";" + note[at+1:]
	}
	return " " + note
}

// add adds a line: name, iterations, and pairs of a value and its unit.
func (r *results) add(line string) error {
	fields := strings.Fields(line)
	if len(fields) < 4 {
		return fmt.Errorf("%q is not a result", line)
	}
	name := strings.TrimPrefix(procs.ReplaceAllString(fields[0], ""), "Benchmark")
	peer := ""
	var rest []string
	for _, part := range strings.Split(name, "/") {
		if p, ok := strings.CutPrefix(part, "peer="); ok {
			peer = p
		} else {
			rest = append(rest, part)
		}
	}
	bench := strings.Join(rest, "/")
	if !slices.Contains(r.order, bench) {
		r.order = append(r.order, bench)
	}
	for i := 2; i+1 < len(fields); i += 2 {
		v, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return fmt.Errorf("%q: %w", line, err)
		}
		k := key{bench, peer, fields[i+1]}
		r.values[k] = append(r.values[k], v)
	}
	return nil
}

// median returns the middle of what a benchmark printed, and false if it printed nothing.
func (r *results) median(bench, peer, unit string) (float64, bool) {
	v := slices.Sorted(slices.Values(r.values[key{bench, peer, unit}]))
	if len(v) == 0 {
		return 0, false
	}
	mid := len(v) / 2
	if len(v)%2 == 0 {
		return (v[mid-1] + v[mid]) / 2, true
	}
	return v[mid], true
}

// plusMinus writes half the distance between the lowest and the highest, as a part of the median; and
// nothing where there was one turn only, or no difference.
func (r *results) plusMinus(bench, peer, unit string) string {
	v := r.values[key{bench, peer, unit}]
	m, ok := r.median(bench, peer, unit)
	if !ok || m == 0 || slices.Max(v) == slices.Min(v) {
		return ""
	}
	return fmt.Sprintf(" ± %.0f%%", 100*(slices.Max(v)-slices.Min(v))/2/m)
}

// when lists the times of the runs of some files, by their names without ".txt".
func (r *results) when(files ...string) string {
	var b strings.Builder
	for _, run := range r.runs {
		if name, _, _ := strings.Cut(run.text, ":"); slices.Contains(files, name) {
			fmt.Fprintf(&b, "- %s\n", run.text)
		}
	}
	return b.String()
}

// cpu is the processor that most files name; of several the first.
func (r *results) cpu() (most string) {
	files := map[string]int{}
	for _, m := range r.runs {
		if m.cpu != "" {
			files[m.cpu]++
		}
	}
	for _, m := range r.runs {
		if files[m.cpu] > files[most] {
			most = m.cpu
		}
	}
	return most
}

// machine names the processor, where a result does, and the times of the runs. A file that was made on another processor has
// its name behind its times.
func (r *results) machine() string {
	if len(r.runs) == 0 {
		return "Not measured yet.\n"
	}
	var b strings.Builder
	most := r.cpu()
	if most != "" {
		b.WriteString(most + "\n\n")
	}
	for _, m := range r.runs {
		b.WriteString("- " + m.text)
		if m.cpu != "" && m.cpu != most {
			b.WriteString(", on " + m.cpu)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
