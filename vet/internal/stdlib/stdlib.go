// Package stdlib says what functions of the standard library do with the memory that their arguments lead to, and whether they return.
package stdlib

import (
	"go/types"
	"strings"
)

// Name is the import path and name of a function or method, without the receiver: "bytes.NewReader", "time.AfterFunc".
func Name(fn *types.Func) string {
	if fn == nil || fn.Pkg() == nil {
		return ""
	}
	return fn.Pkg().Path() + "." + fn.Name()
}

// NeverReturns reports whether a function ends the goroutine, the test or the program, or panics.
func NeverReturns(fn *types.Func) bool {
	if fn == nil || fn.Pkg() == nil {
		return false
	}
	switch path, name := fn.Pkg().Path(), fn.Name(); path {
	case "testing":
		switch name {
		case "Fatal", "Fatalf", "FailNow", "Skip", "Skipf", "SkipNow":
			return true
		}
	case "os":
		return name == "Exit"
	case "runtime":
		return name == "Goexit"
	case "log":
		return strings.HasPrefix(name, "Fatal") || strings.HasPrefix(name, "Panic")
	}
	return false
}

// Part reports whether a function returns bytes, or a string, of its first argument.
func Part(fn *types.Func) bool {
	if fn == nil || fn.Signature().Recv() != nil {
		return false
	}
	switch Name(fn) {
	case "bytes.TrimSpace", "bytes.Trim", "bytes.TrimLeft", "bytes.TrimRight", "bytes.TrimPrefix", "bytes.TrimSuffix", "bytes.TrimFunc",
		"bytes.Cut", "bytes.CutPrefix", "bytes.CutSuffix",
		"strings.TrimSpace", "strings.Trim", "strings.TrimLeft", "strings.TrimRight", "strings.TrimPrefix", "strings.TrimSuffix", "strings.TrimFunc",
		"strings.Cut", "strings.CutPrefix", "strings.CutSuffix",
		"slices.Clip":
		return true
	}
	return false
}

// Holds reports whether the first result of a function leads to its first argument: it reads it later, or is a list of its parts.
func Holds(fn *types.Func) bool {
	if fn == nil || fn.Signature().Recv() != nil {
		return false
	}
	switch Name(fn) {
	case "bytes.NewReader", "bytes.NewBuffer", "bytes.Split", "bytes.SplitN", "bytes.SplitAfter", "bytes.SplitAfterN", "bytes.Fields",
		"bytes.FieldsFunc", "bytes.SplitSeq", "bytes.Lines",
		"bufio.NewReader", "bufio.NewReaderSize", "bufio.NewScanner", "encoding/json.NewDecoder",
		"net/http.ReadRequest", "net/http.ReadResponse", // their bodies are read later
		"io.LimitReader", "io.TeeReader", "io.NopCloser", "io.NewSectionReader", "io.MultiReader":
		return true
	}
	return false
}
