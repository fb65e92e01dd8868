package tarn

import (
	"fmt"
	"path"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Stack is a call stack as program counters, innermost first, for runtime.CallersFrames.
type Stack []uintptr

// module is the path that all packages of Tarn's modules begin with.
const module = "github.com/tarn-go/tarn"

// String lists the frames as a panic does, from the first one outside the core of Tarn to the goroutine's function.
func (s Stack) String() string {
	var out strings.Builder
	for f, more := range s.frames {
		if out.Len() > 0 && (f.Function == "runtime.main" || f.Function == "runtime.goexit") {
			break // what calls main.main and a goroutine's function says nothing
		}
		if out.Len() > 0 || !more || !coreFrame(f) {
			fmt.Fprintf(&out, "\t%s\n\t\t%s:%d\n", f.Function, f.File, f.Line)
		}
	}
	return out.String()
}

// Title names the frame that a reader looks for, as "pkg.Func file.go:12": the innermost one outside
// of Tarn's modules and the standard library; if there is none, the innermost outside the core of Tarn.
// It is empty for an empty stack.
func (s Stack) Title() string {
	var title, fallback string
	for f, more := range s.frames {
		switch {
		case title != "":
		case !libraryFrame(f):
			title = describe(f)
		case fallback == "" && (!more || !coreFrame(f)):
			fallback = describe(f)
		}
	}
	if title == "" {
		title = fallback
	}
	return title
}

// frames iterates over the frames, with whether more follow.
func (s Stack) frames(yield func(f runtime.Frame, more bool) bool) {
	if len(s) == 0 {
		return
	}
	frames := runtime.CallersFrames(s)
	for {
		f, more := frames.Next()
		if !yield(f, more) || !more {
			return
		}
	}
}

// faultingStack is the stack below the fault that the caller's goroutine panics with, or has just recovered from: its innermost
// frame is the one that accessed the memory. It is empty without a fault.
func faultingStack() Stack {
	pcs := make(Stack, 64)
	pcs = pcs[:runtime.Callers(0, pcs)]
	for i, pc := range pcs {
		if f := runtime.FuncForPC(pc); f != nil && f.Name() == "runtime.sigpanic" && i+1 < len(pcs) {
			stack := pcs[i+1:]
			stack[0]++ // CallersFrames takes a program counter for one behind a call, and this one is that of the access
			return stack
		}
	}
	return nil
}

func describe(f runtime.Frame) string {
	return fmt.Sprintf("%s %s:%d", path.Base(f.Function), path.Base(f.File), f.Line)
}

// coreFrame reports whether a frame is of the root package's own code, or of what is behind it.
func coreFrame(f runtime.Frame) bool {
	rest, ok := strings.CutPrefix(f.Function, module)
	if !ok || strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	return strings.HasPrefix(rest, ".") || strings.HasPrefix(rest, "/internal/slab.") || strings.HasPrefix(rest, "/internal/track.")
}

// libraryFrame reports whether a frame is of Tarn's libraries or of the standard library, tests and
// programs excepted.
func libraryFrame(f runtime.Frame) bool {
	if strings.HasSuffix(f.File, "_test.go") {
		return false
	}
	if rest, ok := strings.CutPrefix(f.Function, module); ok && (rest[:1] == "." || rest[:1] == "/") {
		for _, programs := range []string{"/cmd/", "/examples/", "/bench", "/interop"} {
			if strings.HasPrefix(rest, programs) {
				return false
			}
		}
		return true
	}
	return standardFrame(f)
}

// standardFrame reports whether a frame is of the standard library: its file is in the source tree
// that the runtime's own files are in. A build with -trimpath has no such tree; there the import path decides.
func standardFrame(f runtime.Frame) bool {
	const known = "runtime.Callers"
	var pc [1]uintptr
	runtime.Callers(0, pc[:])
	self, _ := runtime.CallersFrames(pc[:]).Next()
	if tree, ok := strings.CutSuffix(self.File, "runtime/extern.go"); ok && self.Function == known && tree != "" {
		return strings.HasPrefix(f.File, tree)
	}
	return standardPath(f.Function, modulesWithoutDot())
}

// standardPath reports whether a function's import path is of the standard library: it is not of a
// program or of one of modules, and its first element has no dot.
func standardPath(function string, modules []string) bool {
	if strings.HasPrefix(function, "main.") {
		return false
	}
	for _, m := range modules {
		if rest, ok := strings.CutPrefix(function, m); ok && rest != "" && (rest[0] == '.' || rest[0] == '/') {
			return false
		}
	}
	first, _, _ := strings.Cut(function, "/")
	return first == function || !strings.Contains(first, ".")
}

// modulesWithoutDot are the modules of this program whose import paths look like the standard library's,
// as those of programs that are not published often do.
var modulesWithoutDot = sync.OnceValue(func() []string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	var paths []string
	for _, m := range append(info.Deps, &info.Main) {
		if first, _, _ := strings.Cut(m.Path, "/"); first != "" && !strings.Contains(first, ".") {
			paths = append(paths, m.Path)
		}
	}
	return paths
})
