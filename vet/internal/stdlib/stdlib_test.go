package stdlib

import (
	"go/token"
	"go/types"
	"testing"
)

// function is a function of a package, or a method of a type of it.
func function(path, name string, method bool) *types.Func {
	pkg := types.NewPackage(path, "")
	var recv *types.Var
	if method {
		recv = types.NewParam(token.NoPos, pkg, "", types.NewNamed(types.NewTypeName(token.NoPos, pkg, "T", nil), types.NewStruct(nil, nil), nil))
	}
	return types.NewFunc(token.NoPos, pkg, name, types.NewSignatureType(recv, nil, nil, nil, nil, false))
}

func TestWhatFunctionsDo(t *testing.T) {
	for _, c := range []struct {
		what   string
		is     func(*types.Func) bool
		yes    []*types.Func
		others []*types.Func
	}{
		{"never returns", NeverReturns,
			[]*types.Func{function("os", "Exit", false), function("testing", "Fatal", true), function("log", "Panicf", false), function("runtime", "Goexit", false)},
			[]*types.Func{function("testing", "Error", true), function("log", "Print", false), function("example.com/os", "Exit", false)}},
		{"fails the test", FailsTest,
			[]*types.Func{function("testing", "Errorf", true)}, []*types.Func{function("testing", "Log", true), function("errors", "Error", true)}},
		{"borrows", Borrows,
			[]*types.Func{function("io", "ReadFull", false), function("fmt", "Println", false)},
			[]*types.Func{function("io", "NopCloser", false), function("log/slog", "Info", false), function("example.com/x", "Read", false)}},
		{"prints", Prints,
			[]*types.Func{function("log/slog", "Info", false), function("fmt", "Println", false)}, []*types.Func{function("example.com/log", "Print", false)}},
		{"returns a part", Part,
			[]*types.Func{function("bytes", "TrimSpace", false)}, []*types.Func{function("bytes", "TrimSpace", true), function("bytes", "ToUpper", false)}},
		{"leads to its argument", Holds,
			[]*types.Func{function("bytes", "NewReader", false), function("bufio", "NewScanner", false)}, []*types.Func{function("bytes", "Clone", false)}},
		{"runs once later", RunsOnceLater,
			[]*types.Func{function("time", "AfterFunc", false)}, []*types.Func{function("net/http", "HandleFunc", false), function("time", "Sleep", false)}},
		{"spawns", Spawns,
			[]*types.Func{function("sync", "Go", true), function("golang.org/x/sync/errgroup", "Go", true)}, []*types.Func{function("golang.org/x/sync/errgroup", "TryGo", true)}},
		{"may spawn", MaySpawn, []*types.Func{function("golang.org/x/sync/errgroup", "TryGo", true)}, []*types.Func{function("sync", "Go", true)}},
		{"is Cleanup", IsCleanup, []*types.Func{function("testing", "Cleanup", true)}, []*types.Func{function("testing", "Log", true)}},
		{"computes", Computes,
			[]*types.Func{function("sort", "Slice", false), function("fmt", "Sprint", false), function("time", "AfterFunc", false)},
			[]*types.Func{function("fmt", "Fprint", false), function("fmt", "Scanln", false), function("sync", "Wait", true)}},
		{"resets", Resets, []*types.Func{function("bytes", "Reset", true)}, []*types.Func{function("time", "Reset", true)}},
	} {
		for _, fn := range c.yes {
			if !c.is(fn) {
				t.Errorf("%s %s: false", Name(fn), c.what)
			}
		}
		for _, fn := range append(c.others, nil) {
			if c.is(fn) {
				t.Errorf("%s %s: true", Name(fn), c.what)
			}
		}
	}
}

func TestWhichArgument(t *testing.T) {
	if i, ok := ReadsFrom(function("io", "Copy", false)); !ok || i != 1 {
		t.Errorf("io.Copy reads from %d, %v", i, ok)
	}
	if _, ok := ReadsFrom(function("example.com/io", "Copy", false)); ok {
		t.Error("another Copy reads")
	}
	if when, ok := RunsLater(function("net/http", "HandleFunc", false)); !ok || when != ForEachRequest {
		t.Errorf("HandleFunc runs its argument %s, %v", when, ok)
	}
	if _, ok := RunsLater(function("sort", "Slice", false)); ok {
		t.Error("sort.Slice runs its argument later")
	}
	for _, c := range []struct {
		fn   *types.Func
		i    int
		want bool
	}{
		{function("encoding/binary", "PutUvarint", false), 0, true},
		{function("encoding/binary", "PutUint32", true), 1, true},
		{function("encoding/binary", "Uvarint", false), 0, false},
		{function("io", "ReadFull", false), 1, true},
		{function("io", "ReadFull", false), 0, false},
		{function("net", "Read", true), 1, true},
		{function("net", "Write", true), 1, false},
		{function("crypto/rand", "Read", false), 0, true},
		{function("crypto/rand", "Text", false), 0, false},
		{function("example.com/x", "Read", true), 1, false},
		{nil, 0, false},
	} {
		if got := Writes(c.fn, c.i); got != c.want {
			t.Errorf("%s writes argument %d: %v", Name(c.fn), c.i, got)
		}
	}
}
