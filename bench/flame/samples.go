package main

import (
	"bufio"
	"errors"
	"io"
	"strings"
)

// call is a function with its callers, and the number of samples in which they were on the stack.
type call struct {
	name    string
	samples int
	callees map[string]*call
}

// callee returns the call of name by c.
func (c *call) callee(name string) *call {
	if c.callees == nil {
		c.callees = make(map[string]*call)
	}
	next := c.callees[name]
	if next == nil {
		next = &call{name: name}
		c.callees[name] = next
	}
	return next
}

// add counts a sample whose stack is given from the innermost function on.
func (c *call) add(stack []string) {
	c.samples++
	for at := len(stack) - 1; at >= 0; at-- {
		c = c.callee(stack[at])
		c.samples++
	}
}

var errNoSamples = errors.New("the input has no samples; it must be the output of perf script of a recording with -g")

// readSamples reads the output of perf script: for each sample a line that is not indented, one indented line for each function
// on the stack from the innermost on, and an empty line.
func readSamples(r io.Reader) (*call, error) {
	root := &call{name: "all"}
	lines := bufio.NewScanner(r)
	const longest = 1 << 20
	lines.Buffer(nil, longest)
	var stack []string
	end := func() {
		if len(stack) > 0 {
			root.add(stack)
		}
		stack = stack[:0]
	}
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "":
			end()
		case line[0] == ' ' || line[0] == '\t':
			if name := function(line); name != "" {
				stack = append(stack, name)
			}
		}
	}
	end()
	if root.samples == 0 && lines.Err() == nil {
		return nil, errNoSamples
	}
	return root, lines.Err()
}

// function returns the function in a line of a stack: "  ADDRESS FUNCTION+OFFSET (FILE)". It is shortened to
// package and name, without type arguments.
func function(line string) string {
	_, name, _ := strings.Cut(strings.TrimSpace(line), " ")
	if at := strings.LastIndex(name, " ("); at >= 0 {
		name = name[:at]
	}
	if at := strings.LastIndex(name, "+0x"); at >= 0 {
		name = name[:at]
	}
	if open, end := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']'); open > 0 && end > open && name != "[unknown]" {
		name = name[:open] + name[end+1:]
	}
	head, method, _ := strings.Cut(name, "(")
	head = head[strings.LastIndexByte(head, '/')+1:]
	if method == "" {
		return head
	}
	return head + "(" + method
}
