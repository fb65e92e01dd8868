// Package designpage compares a page of docs/design, which says where to look, with the files that are there. It is for tests.
package designpage

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var (
	fileName = regexp.MustCompile("`([a-z0-9_]+\\.go)`")
	subtree  = regexp.MustCompile("`(internal/[a-z0-9]+)`")
	variant  = regexp.MustCompile(`_(linux|other|go1[0-9]+)\.go$`) // a page names one of them
)

// Compare returns what is wrong with text, part of a page about the package in dir: files of the package, or of its subpackages, that
// text does not name, and files that it names and that are not there. doc.go, tests and generated files are left out. A file's name is
// that of a file of the package, except in a table whose header, and in a row whose first cell, has the name of a subpackage: "internal/…".
func Compare(text, dir string, subpackages ...string) (wrong []string) {
	named := make(map[string]bool)
	table, header := "", true
	for line := range strings.Lines(text) {
		in, row := "", strings.HasPrefix(line, "|")
		switch {
		case !row:
			table, header = "", true
		case header:
			table, header = of(line, subpackages), false
		default:
			first, _, _ := strings.Cut(line[1:], "|")
			in = of(first, subpackages)
		}
		if in == "" {
			in = table
		}
		for _, m := range fileName.FindAllStringSubmatch(line, -1) {
			name := path.Join(in, m[1])
			if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
				wrong = append(wrong, "the page names "+name+", which is not there")
			}
			named[variant.ReplaceAllString(name, ".go")] = true
		}
	}
	for _, sub := range append([]string{""}, subpackages...) {
		files, err := filepath.Glob(filepath.Join(dir, sub, "*.go"))
		if err != nil || len(files) == 0 {
			wrong = append(wrong, "there is no file in "+filepath.Join(dir, sub))
		}
		for _, file := range files {
			name := path.Join(sub, filepath.Base(file))
			if left := strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go") || path.Base(name) == "doc.go"; !left && !named[variant.ReplaceAllString(name, ".go")] {
				wrong = append(wrong, "the page does not name "+name)
			}
		}
	}
	return wrong
}

// of returns the first of subpackages that text names; "": none.
func of(text string, subpackages []string) string {
	for _, m := range subtree.FindAllStringSubmatch(text, -1) {
		if slices.Contains(subpackages, m[1]) {
			return m[1]
		}
	}
	return ""
}
