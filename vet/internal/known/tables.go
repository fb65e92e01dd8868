package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// enough is the number of defects that have to be analysed in both versions: a version that cannot be fetched says nothing of the analyser.
const enough = 12

// defects prints the result for each defect, and returns what differs from what the list says of it.
func (r *runner) defects(out io.Writer, list []defect) (problems []string) {
	ran, counted, reports, silent := 0, 0, 0, 0
	fmt.Fprintf(out, "| defect | before | reports | after | reports |\n|---|---|---:|---|---:|\n")
	for _, d := range list {
		if !strings.Contains(d.module, r.only) {
			continue
		}
		counted++
		before, after := r.look(d, d.before), r.look(d, d.after)
		fmt.Fprintf(out, "| %s | %s | %v | %s | %v |\n", d.fix, d.before, before, d.after, after)
		if before.reports > 0 {
			reports++
		}
		if before.err == nil && after.err == nil {
			ran++
			if after.reports == 0 {
				silent++
			}
		}
		for _, p := range d.differs(before, after) {
			problems = append(problems, d.fix+": "+p)
		}
	}
	fmt.Fprintf(out, "\n%d of %d reported before the fix. Both versions of %d were analysed, and in %d of these nothing is reported after it.\n", reports, counted, ran, silent)
	if ran < min(enough, counted) {
		problems = append(problems, fmt.Sprintf("both versions of %d defects were analysed, at least %d should be", ran, min(enough, counted)))
	}
	return problems
}

// A row is what the analysis of one version found of a defect.
type row struct {
	reports int
	err     error
}

func (w row) String() string {
	for _, known := range []error{errUnfetched, errUncompiled} {
		if errors.Is(w.err, known) {
			return known.Error()
		}
	}
	if w.err != nil {
		return "failed"
	}
	return strconv.Itoa(w.reports)
}

// look analyses one version. A version of which a package was left out is one that does not compile: that it has no reports would say
// nothing.
func (r *runner) look(d defect, version string) row {
	res, err := r.analyse(d.module+"@"+version, d.packages)
	if err == nil && res.Broken > 0 {
		err = fmt.Errorf("%s %w: %d of %d packages", version, errUncompiled, res.Broken, res.Packages)
	}
	if err != nil {
		fmt.Fprintf(r.log, "%s: %v\n", d.module, err)
		return row{err: err}
	}
	return row{reports: d.count(res)}
}

// differs says how the results of both versions differ from what is expected. That a version cannot be fetched is no difference.
func (d defect) differs(before, after row) (list []string) {
	for _, w := range []row{before, after} {
		if w.err != nil && !errors.Is(w.err, errUnfetched) && !(d.expect == uncompiled && errors.Is(w.err, errUncompiled)) {
			list = append(list, w.err.Error())
		}
	}
	switch {
	case before.err != nil:
	case d.expect == missed && before.reports > 0:
		list = append(list, "is reported now; the list has it as missed")
	case d.expect != missed && before.reports == 0:
		list = append(list, "is not reported any more")
	}
	if after.reports > 0 {
		list = append(list, fmt.Sprintf("%d reports after the fix", after.reports))
	}
	return list
}

// count is the number of reports in the files of the defect.
func (d defect) count(r result) (n int) {
	for _, p := range r.Reports {
		file, _, _ := strings.Cut(p.At, ":")
		if slices.Contains(d.files, file) {
			n++
		}
	}
	return n
}

// mostBroken is the share of a module's packages that need not compile, for want of generated files: one in so many. That nothing is reported
// in the others would say little of the module.
const mostBroken = 10

// modules prints the result for each module, and returns those that could not be analysed and the reports that nobody has classed.
func (r *runner) modules(out io.Writer, list []module) (problems []string) {
	lines, wrong, counted := 0, 0, 0
	fmt.Fprintf(out, "| module | lines | packages | reports | real | false |\n|---|---:|---:|---:|---:|---:|\n")
	for _, m := range list {
		if !strings.Contains(m.path, r.only) {
			continue
		}
		began := time.Now()
		res, err := r.analyse(m.path+"@"+m.version, []string{"./..."})
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		fmt.Fprintf(r.log, "%s: %v, %d packages do not compile\n", m.path, time.Since(began).Round(time.Second), res.Broken)
		if res.Broken*mostBroken > res.Packages {
			problems = append(problems, fmt.Sprintf("%s %v: %d of %d packages", m.path, errUncompiled, res.Broken, res.Packages))
		}
		found := map[class]int{}
		for _, p := range res.Reports {
			c := m.classes[p.At]
			found[c]++
			if c == unread {
				problems = append(problems, fmt.Sprintf("%s: not classed: %s: %s", m.path, p.At, p.Message))
			}
		}
		counted++
		lines += res.Lines
		wrong += found[falseReport]
		fmt.Fprintf(out, "| %s %s | %d | %d | %d | %d | %d |\n", m.path, m.version, res.Lines, res.Packages, len(res.Reports), found[realDefect], found[falseReport])
	}
	fmt.Fprintf(out, "\n%d modules, %d lines without tests, %d false reports", counted, lines, wrong)
	if wrong > 0 {
		fmt.Fprintf(out, ": one for each %d lines", lines/wrong)
	}
	fmt.Fprintln(out, ".")
	return problems
}
