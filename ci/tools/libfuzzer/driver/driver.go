// Package driver runs a fuzz target of package testing for libFuzzer, a given input at a time. Command libfuzzer builds it into the programs
// that it makes: their package main has the text of this file.
package driver

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// header is the first line of a kept seed.
const header = "go test fuzz v1"

// entry is testing's corpusEntry, which is an alias of this type.
type entry = struct {
	Parent     string
	Path       string
	Data       []byte
	Values     []any
	Generation int
	IsSeed     bool
}

// Target is a fuzz target that is ready for inputs.
type Target struct {
	types  []reflect.Type
	seeds  [][]any
	inputs chan []any
	errs   chan error
}

// Start runs the fuzz target up to its call of F.Fuzz, as a worker of go test -fuzz. The seeds are those of F.Add and, if the working
// directory is that of the package, those in testdata.
func Start(name string, fn func(*testing.F)) (*Target, error) {
	testing.Init()
	if err := flag.CommandLine.Parse([]string{"-test.run=^$", "-test.fuzz=^" + name + "$", "-test.fuzzcachedir=" + os.TempDir()}); err != nil {
		return nil, err
	}
	t := &Target{inputs: make(chan []any), errs: make(chan error)}
	run := func() int {
		return testing.MainStart(deps{t}, nil, nil, []testing.InternalFuzzTarget{{Name: name, Fn: fn}}, nil).Run()
	}
	// Only a coordinator gets the types and the seeds, and only a worker the function.
	if status := run(); status != 0 || t.types == nil {
		return nil, fmt.Errorf("%s did not call F.Fuzz; its status is %d", name, status)
	}
	if err := flag.Set("test.fuzzworker", "true"); err != nil {
		return nil, err
	}
	ended := make(chan int, 1)
	go func() { ended <- run() }()
	select {
	case <-t.errs: // the worker waits
		return t, nil
	case status := <-ended:
		return nil, fmt.Errorf("%s did not call F.Fuzz; its status is %d", name, status)
	}
}

// Run runs the target on an input of libFuzzer. It panics if the target fails, with the input in the form of a kept seed.
func (t *Target) Run(data []byte) {
	values := decode(t.types, data)
	t.inputs <- values
	if err := <-t.errs; err != nil {
		panic(fmt.Sprintf("%v\nthe input as a seed:\n%s", err, format(values)))
	}
}

// WriteSeeds writes the seeds as inputs of libFuzzer.
func (t *Target) WriteSeeds(dir string) error {
	for i, values := range t.seeds {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("seed-%04d", i)), encode(values), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// deps is what package testing asks of the program.
type deps struct{ target *Target }

func (deps) ImportPath() string                          { return "" }
func (deps) ModulePath() string                          { return "" }
func (deps) SetPanicOnExit0(bool)                        {}
func (deps) StartCPUProfile(io.Writer) error             { return errors.ErrUnsupported }
func (deps) StopCPUProfile()                             {}
func (deps) StartTestLog(io.Writer)                      {}
func (deps) StopTestLog() error                          { return nil }
func (deps) WriteProfileTo(string, io.Writer, int) error { return errors.ErrUnsupported }
func (deps) ResetCoverage()                              {}
func (deps) SnapshotCoverage()                           {}

func (deps) MatchString(pattern, name string) (bool, error) {
	return regexp.MatchString(pattern, name)
}

func (deps) InitRuntimeCoverage() (string, func(string, string) (string, error), func() float64) {
	return "", nil, nil
}

func (deps) CheckCorpus(values []any, types []reflect.Type) error {
	if len(values) != len(types) {
		return fmt.Errorf("%d values, not %d", len(values), len(types))
	}
	for i, v := range values {
		if reflect.TypeOf(v) != types[i] {
			return fmt.Errorf("value %d is a %T, not a %v", i, v, types[i])
		}
	}
	return nil
}

func (d deps) ReadCorpus(dir string, types []reflect.Type) ([]entry, error) {
	files, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var seeds []entry
	for _, file := range files {
		name := filepath.Join(dir, file.Name())
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		values, err := parse(text)
		if err == nil {
			err = d.CheckCorpus(values, types)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		seeds = append(seeds, entry{Path: name, Values: values})
		d.target.seeds = append(d.target.seeds, values) // testing keeps no values of these
	}
	return seeds, err
}

func (d deps) CoordinateFuzzing(_ time.Duration, _ int64, _ time.Duration, _ int64, _ int, seeds []entry, types []reflect.Type, _, _ string) error {
	d.target.types = types
	for _, seed := range seeds {
		if seed.Values != nil {
			d.target.seeds = append(d.target.seeds, seed.Values)
		}
	}
	return nil
}

func (d deps) RunFuzzWorker(fn func(entry) error) error {
	d.target.errs <- nil
	for values := range d.target.inputs {
		d.target.errs <- fn(entry{Values: values})
	}
	return nil
}

// encode makes an input of libFuzzer: the values one after the other. Bytes and strings have their length in front, in four bytes, except
// the last value, so that a target of a single one gets the input as it is.
func encode(values []any) []byte {
	var data []byte
	for i, value := range values {
		v := reflect.ValueOf(value)
		switch v.Kind() {
		case reflect.String, reflect.Slice:
			if i < len(values)-1 {
				data = binary.BigEndian.AppendUint32(data, uint32(v.Len()))
			}
			data = append(data, v.Convert(reflect.TypeFor[[]byte]()).Bytes()...)
		case reflect.Bool:
			data = append(data, 0)
			if v.Bool() {
				data[len(data)-1] = 1
			}
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			word := binary.BigEndian.AppendUint64(nil, uint64(v.Int()))
			data = append(data, word[8-v.Type().Size():]...)
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			word := binary.BigEndian.AppendUint64(nil, v.Uint())
			data = append(data, word[8-v.Type().Size():]...)
		default:
			panic(fmt.Sprintf("there is no encoding of %T", value))
		}
	}
	return data
}

// decode reads what encode makes, and values from any other bytes: what is missing is zero, and a length is at most that of what follows.
func decode(types []reflect.Type, data []byte) []any {
	take := func(n int) []byte {
		taken := data[:min(n, len(data))]
		data = data[len(taken):]
		return taken
	}
	word := func(n uintptr) uint64 {
		var full [8]byte
		copy(full[8-n:], take(int(n)))
		return binary.BigEndian.Uint64(full[:])
	}
	values := make([]any, len(types))
	for i, kind := range types {
		v := reflect.New(kind).Elem()
		switch kind.Kind() {
		case reflect.String, reflect.Slice:
			n := len(data)
			if i < len(types)-1 {
				declared := word(4)
				n = int(min(declared, uint64(len(data))))
			}
			v.Set(reflect.ValueOf(append([]byte{}, take(n)...)).Convert(kind))
		case reflect.Bool:
			v.SetBool(word(1)&1 == 1)
		case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
			shift := 64 - 8*kind.Size()
			v.SetInt(int64(word(kind.Size())<<shift) >> shift)
		case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
			v.SetUint(word(kind.Size()))
		default:
			panic(fmt.Sprintf("there is no encoding of %v", kind))
		}
		values[i] = v.Interface()
	}
	return values
}

// format writes values as go test keeps a seed.
func format(values []any) []byte {
	text := []byte(header + "\n")
	for _, value := range values {
		form := "%T(%v)\n"
		switch value.(type) {
		case []byte:
			form = "[]byte(%[2]q)\n"
		case string:
			form = "%T(%q)\n"
		}
		text = fmt.Appendf(text, form, value, value)
	}
	return text
}

// parse reads a kept seed.
func parse(text []byte) ([]any, error) {
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	if string(bytes.TrimSpace(first)) != header {
		return nil, fmt.Errorf("the first line is not %q", header)
	}
	var values []any
	for line := range bytes.Lines(rest) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		value, err := parseValue(string(line))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		values = append(values, value)
	}
	return values, nil
}

func parseValue(line string) (any, error) {
	e, err := parser.ParseExpr(line)
	if err != nil {
		return nil, err
	}
	call, ok := e.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return nil, errors.New("not a conversion")
	}
	text := line[call.Args[0].Pos()-1 : call.Args[0].End()-1]
	literal, _ := call.Args[0].(*ast.BasicLit)
	if _, ok := call.Fun.(*ast.ArrayType); ok {
		s, err := strconv.Unquote(text)
		return []byte(s), err
	}
	name, ok := call.Fun.(*ast.Ident)
	if !ok {
		return nil, errors.New("an unknown type")
	}
	kind, ok := map[string]reflect.Type{
		"string": reflect.TypeFor[string](), "bool": reflect.TypeFor[bool](), "byte": reflect.TypeFor[byte](), "rune": reflect.TypeFor[rune](),
		"int": reflect.TypeFor[int](), "int8": reflect.TypeFor[int8](), "int16": reflect.TypeFor[int16](), "int32": reflect.TypeFor[int32](), "int64": reflect.TypeFor[int64](),
		"uint": reflect.TypeFor[uint](), "uint8": reflect.TypeFor[uint8](), "uint16": reflect.TypeFor[uint16](), "uint32": reflect.TypeFor[uint32](), "uint64": reflect.TypeFor[uint64](),
	}[name.Name]
	if !ok {
		return nil, fmt.Errorf("there is no encoding of %s", name.Name)
	}
	v := reflect.New(kind).Elem()
	switch {
	case kind.Kind() == reflect.String:
		s, err := strconv.Unquote(text)
		return s, err
	case kind.Kind() == reflect.Bool:
		return strconv.ParseBool(text)
	case literal != nil && literal.Kind == token.CHAR:
		r, _, _, err := strconv.UnquoteChar(text[1:], '\'')
		if err != nil {
			return nil, err
		}
		text = strconv.Itoa(int(r))
	}
	if v.CanInt() {
		n, err := strconv.ParseInt(text, 0, kind.Bits())
		v.SetInt(n)
		return v.Interface(), err
	}
	n, err := strconv.ParseUint(text, 0, kind.Bits())
	v.SetUint(n)
	return v.Interface(), err
}
