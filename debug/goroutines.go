package debug

import (
	"bytes"
	"fmt"
	"runtime/pprof"
	"strconv"
	"strings"
)

// goroutines returns the stacks of the process's goroutines as text, those that are equal once. With a method's name, of gRPC or of another
// function, only the stacks that have a function of that name: those of the calls of the method that wait, on both sides, because generated stubs
// and handlers are named by the method.
func goroutines(method string) (*answer, error) {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		return nil, err
	}
	out := all.Bytes()
	if method != "" {
		out = []byte(stacksOf(all.String(), method[strings.LastIndexByte(method, '/')+1:]))
	}
	return makeAnswer("text/plain; charset=utf-8", out), nil
}

// stacksOf returns the groups of a goroutine profile's text that have a function of this name.
func stacksOf(profile, name string) string {
	_, stacks, _ := strings.Cut(profile, "\n") // the line before them says how many goroutines there are
	var found strings.Builder
	groups, kept := 0, 0
	for group := range strings.SplitSeq(strings.TrimSpace(stacks), "\n\n") {
		groups++
		if hasFunction(group, name) {
			kept++
			found.WriteString("\n" + group + "\n")
		}
	}
	return fmt.Sprintf("%d of %d stacks have a function named %s; without method= there are all\n", kept, groups, strconv.Quote(name)) + found.String()
}

// hasFunction reports whether a function of a stack is called name, or is generated for a method of that name, as _Greeter_SayHello_Handler is.
func hasFunction(stack, name string) bool {
	if name == "" {
		return false
	}
	for line := range strings.Lines(stack) {
		fields := strings.Split(line, "\t") // "#", the address, function+offset, file:line
		if len(fields) < 3 || fields[0] != "#" {
			continue
		}
		function, _, _ := strings.Cut(fields[2], "+0x")
		function = strings.ReplaceAll(function, "[...]", "") // type arguments
		last := function[strings.LastIndexByte(function, '/')+1:]
		for part := range strings.SplitSeq(last, ".") {
			if part == name || strings.HasSuffix(part, "_"+name+"_Handler") {
				return true
			}
		}
	}
	return false
}
