package migrate

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/cmd/tarn/internal/cli"
)

// old is a file that uses what package rpc does not have.
const old = `package main

import "google.golang.org/grpc"

func before() *grpc.ClientConn {
	cc, _ := grpc.Dial("127.0.0.1:1", grpc.WithInsecure())
	cc, _ = grpc.Dial("127.0.0.1:1",
		grpc.WithUserAgent("old"),
		grpc.WithAuthority("old"),
	)
	return cc
}
`

// excluded is a file that is not part of the build, without the package's name.
const excluded = `//go:build never

package %s

import stock "google.golang.org/grpc"

func excluded() *stock.Server { return stock.NewServer() }
`

// harmless is an excluded file that stays as it is.
const harmless = `//go:build never

package main

import "google.golang.org/grpc"

func harmless(cc *grpc.ClientConn) grpc.CallOption { return grpc.WaitForReady(true) }
`

// TestMigrateLeaves lists what cannot be changed.
func TestMigrateLeaves(t *testing.T) {
	dir := module(t, "cmd/tarn", map[string]string{
		"main.go": source, "old.go": old, "library/library.go": library,
		"excluded.go": fmt.Sprintf(excluded, "main"), "harmless.go": harmless, "alone/alone.go": fmt.Sprintf(excluded, "alone"),
		"alone/testdata/data.go": fmt.Sprintf(excluded, "data"), "nested/go.mod": "module nested", "nested/nested.go": fmt.Sprintf(excluded, "nested"),
	})
	if _, out := migrate(t, dir, "-n", "example.com/app"); !strings.Contains(out, "excluded.go:5:8: ") || strings.Contains(out, "alone.go") {
		t.Errorf("of one package: %s", out)
	}
	status, out := migrate(t, dir)
	if status != cli.Failed {
		t.Errorf("status %d", status)
	}
	for _, want := range []string{"old.go:7:11: grpc.Dial has no counterpart", "old.go:8:10: grpc.Dial has no counterpart", "grpc.WithInsecure has no counterpart", "to be changed by hand:\n",
		"excluded.go:5:8: build constraints exclude", "alone.go:5:8: build constraints exclude"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%q is not once in\n%s", want, out)
		}
	}
	if n := strings.Count(out, "old.go:"); n != 5 { // changes, three names, and the return of a client of grpc-go
		t.Errorf("%d lines about old.go in\n%s", n, out)
	}
	for _, name := range []string{"harmless.go", "data.go", "nested.go"} {
		if strings.Contains(out, name) {
			t.Errorf("%s is listed in\n%s", name, out)
		}
	}
}

// TestLines: lines of a file become lines of the changed one and are found again, where imports are added, moved
// and removed.
func TestLines(t *testing.T) {
	const src = "package a\n\nimport (\n\t\"b\"\n\t\"c\"\n)\n\nvar d = 1\nvar e = 2"
	line := func(text string, at int) string { return strings.Split(text, "\n")[at-1] }
	at := func(s string) int { return strings.Index(src, s) }
	for _, edits := range [][]edit{
		{},
		{{at("\t\"b\""), at("\t\"c\""), ""}},
		{{at("\t\"c\""), at(")"), ""}},
		{{at("\"c\""), at("\"c\""), "\"x\"\n\t"}},
		{{9, 9, "\n\nimport \"x\""}, {at("import"), at("var d"), ""}},
	} {
		f := &file{src: []byte(src), edits: edits}
		text := src
		for _, e := range slices.Backward(edits) {
			text = text[:e.at] + e.text + text[e.end:]
		}
		for _, want := range []string{"package a", "var d = 1", "var e = 2"} {
			old := 1 + strings.Count(src[:at(want)], "\n")
			if got := f.newLine(old); line(text, got) != want {
				t.Errorf("%v: line %d became %d in\n%s", edits, old, got, text)
			} else if back := f.oldLine(got); back != old {
				t.Errorf("%v: line %d was %d, not %d, before\n%s", edits, got, old, back, text)
			}
		}
	}
}
