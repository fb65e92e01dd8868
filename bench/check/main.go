// Command check measures two commits of Tarn in turns, by `tarn bench`, and prints as Markdown which rows fell by more than 5 %, what
// is ahead of its peers and what behind, and all rows:
//
//	go run ./check                          the working tree beside the latest version
//	go run ./check -base dfc4d775           beside another commit
//	go run ./check -keep DIR                keeps the results there, and compares all that are there: run it at two times
//	go run ./check -keep DIR -turns 0       compares them without measuring
//
// Both programs are built first, the base from a copy of its files in a temporary folder. In a turn each section is measured with both,
// one directly after the other, so that a period in which the machine is slow affects both. A turn begins only if it will end within
// -limit.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/tarn-go/tarn/internal/cputime"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("check: ")
	base := flag.String("base", "", "the `commit` to compare with; the latest version otherwise")
	turns := flag.Int("turns", 5, "turns")
	limit := flag.Duration("limit", 20*time.Minute, "the longest time that all of it may take")
	keep := flag.String("keep", "", "keep the results in this `folder`")
	only := flag.String("sections", "core http rpc smb", "the sections of tarn bench")
	flag.Parse()
	if err := run(*base, *keep, strings.Fields(*only), *turns, time.Now().Add(*limit)); err != nil {
		log.Fatal(err)
	}
}

func run(base, keep string, sections []string, turns int, deadline time.Time) error {
	work, err := os.MkdirTemp("", "bench-check")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if keep == "" {
		keep = filepath.Join(work, "results")
	}
	if err := os.MkdirAll(keep, 0o755); err != nil {
		return err
	}
	if turns > 0 {
		m, err := build(work, base)
		if err != nil {
			return err
		}
		if err := m.measure(keep, sections, turns, deadline); err != nil {
			return err
		}
	}
	all, err := read(keep)
	if err != nil {
		return err
	}
	return print(os.Stdout, all)
}

// pair is something of the base and of the working tree.
type pair[T any] struct{ Old, New T }

// measurer has the programs that are measured, and the commits that they were built from.
type measurer struct {
	program, commit pair[string]
}

func build(work, base string) (measurer, error) {
	m := measurer{program: pair[string]{filepath.Join(work, "old"), filepath.Join(work, "new")}}
	root, err := output("", "git", "rev-parse", "--show-toplevel")
	if err != nil {
		return m, err
	}
	if base == "" {
		if base, err = output(root, "git", "describe", "--tags", "--abbrev=0", "--match=v*"); err != nil {
			return m, fmt.Errorf("there is no version yet, name a commit by -base: %w", err)
		}
	}
	if m.commit.Old, err = output(root, "git", "rev-parse", "--short=8", base+"^{commit}"); err != nil {
		return m, err
	}
	if m.commit.New, err = output(root, "git", "describe", "--always", "--abbrev=8", "--exclude=*", "--dirty"); err != nil {
		return m, err
	}
	tree := filepath.Join(work, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return m, err
	}
	archive := filepath.Join(work, "tree.tar")
	if _, err := output(root, "git", "archive", "-o", archive, m.commit.Old); err != nil {
		return m, err
	}
	if _, err := output(tree, "tar", "-xf", archive); err != nil {
		return m, err
	}
	for _, b := range [][2]string{{tree, m.program.Old}, {root, m.program.New}} {
		log.Printf("building in %s", b[0])
		if _, err := output(b[0], "go", "build", "-o", b[1], "./cmd/tarn"); err != nil {
			return m, err
		}
	}
	return m, nil
}

// measure adds turns to the results in folder keep.
func (m measurer) measure(keep string, sections []string, turns int, deadline time.Time) error {
	var longest time.Duration
	for i := range turns {
		begun := time.Now()
		if begun.Add(longest).After(deadline) {
			log.Printf("%d of %d turns fit into the time", i, turns)
			return nil
		}
		log.Printf("turn %d of %d", i+1, turns)
		t := turn{At: begun.UTC().Truncate(time.Second), Commit: m.commit, Machine: fmt.Sprintf("%s, %d processors", cputime.Model(), runtime.NumCPU())}
		for k, s := range sections {
			// The base is measured first in every other section, so that a drift within a section does not always favour the same one.
			first, second := bench{m.program.Old, &t.Old}, bench{m.program.New, &t.New}
			if (i+k)%2 == 1 {
				first, second = second, first
			}
			if err := errors.Join(first.run(s), second.run(s)); err != nil {
				return err
			}
		}
		data, err := json.MarshalIndent(t, "", " ")
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(keep, t.At.Format("20060102-150405.json")), data, 0o644); err != nil {
			return err
		}
		longest = max(longest, time.Since(begun))
	}
	return nil
}

// bench is a program, and where its results go.
type bench struct {
	program string
	to      *report
}

func (b bench) run(section string) error {
	out, err := output("", b.program, "bench", "-json", section)
	if err != nil {
		return err
	}
	var r report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		return fmt.Errorf("%s bench: %w", b.program, err)
	}
	b.to.Machine = r.Machine
	b.to.Sections = append(b.to.Sections, r.Sections...)
	return nil
}

// read returns the turns in folder dir, in the order of time.
func read(dir string) ([]turn, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []turn
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var t turn
		if err := json.Unmarshal(data, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no results", dir)
	}
	return all, nil
}

func output(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, errs.String())
	}
	return strings.TrimSpace(string(out)), nil
}
