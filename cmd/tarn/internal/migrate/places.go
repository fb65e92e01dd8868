package migrate

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/go/packages"
)

// place is something that is left to do by hand.
type place struct {
	file         string // "" where it is not known
	line, column int    // in the old file, unless places says otherwise
	last         int    // the last line of the call, if the place is the function that is called
	what         string
}

func (p place) String() string {
	if p.file == "" {
		return p.what
	}
	return fmt.Sprintf("%s:%d:%d: %s", p.file, p.line, p.column, p.what)
}

// staying returns the constructors that stay with grpc-go.
func (p *program) staying() (out []string) {
	for _, q := range p.stays {
		if p.written {
			q = p.moved(q)
		}
		out = append(out, q.String())
	}
	return out
}

// moved is the place with its lines in the changed file.
func (p *program) moved(q place) place {
	if f := p.changed[q.file]; f != nil {
		q.line, q.last = f.newLine(q.line), f.newLine(q.last)
	}
	return q
}

// places returns what is left, each place once: what could not be changed, and errors of the changed packages
// in other lines, but not in lines of the arguments of a call that could not be changed. Lines are those of the new files if they have been written, otherwise those of the old ones.
func (p *program) places(pkgs []*packages.Package) []string {
	at := func(file string, line int) string { return fmt.Sprintf("%s:%d", file, line) }
	known := map[string]bool{} // by the line of the new file
	var all []place
	for _, q := range p.left {
		changed := p.moved(q)
		for line := changed.line; line <= changed.last; line++ {
			known[at(q.file, line)] = true
		}
		if p.written {
			q = changed
		}
		all = append(all, q)
	}
	for _, pkg := range pkgs {
		for _, e := range pkg.Errors {
			// The error of "go list" repeats the compiler's, with the names of temporary files.
			if strings.HasPrefix(e.Msg, "# ") {
				continue
			}
			q := position(e)
			if known[at(q.file, q.line)] && q.file != "" {
				continue
			}
			if f := p.changed[q.file]; f != nil && !p.written {
				q.line = f.oldLine(q.line)
			}
			all = append(all, q)
		}
	}
	var out []string
	slices.SortStableFunc(all, func(a, b place) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return a.line - b.line
	})
	for _, q := range all {
		if text := q.String(); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// position is where an error of a package stands.
func position(e packages.Error) place {
	parts := strings.Split(e.Pos, ":")
	if len(parts) < 3 {
		return place{what: e.Error()}
	}
	n := len(parts)
	line, err1 := strconv.Atoi(parts[n-2])
	column, err2 := strconv.Atoi(parts[n-1])
	if err1 != nil || err2 != nil {
		return place{what: e.Error()}
	}
	return place{file: strings.Join(parts[:n-2], ":"), line: line, column: column, what: e.Msg}
}

// newLine is the line of the changed file that a line of the old one became.
func (f *file) newLine(line int) int {
	offset, added := 0, 0
	for range line - 1 {
		i := bytes.IndexByte(f.src[offset:], '\n')
		if i < 0 {
			break
		}
		offset += i + 1
	}
	for _, e := range f.edits {
		if e.at >= offset {
			break
		}
		added += strings.Count(e.text, "\n") - bytes.Count(f.src[e.at:e.end], []byte("\n"))
	}
	return line + added
}

// oldLine is the line of the old file that became a line of the changed one: the last of them where lines were
// removed before it.
func (f *file) oldLine(line int) int {
	old := line
	for old > 1 && f.newLine(old) > line {
		old--
	}
	for f.newLine(old+1) <= line { // newLine grows by one a line behind the file's end
		old++
	}
	return old
}
