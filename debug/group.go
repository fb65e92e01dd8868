package debug

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/tarn-go/tarn"
)

// maxGroups bounds the groups of a snapshot.
const maxGroups = 64

// stackDepth is how many frames of a stack are compared and shown.
const stackDepth = 32

// stackKey identifies an acquisition stack.
type stackKey [stackDepth]uintptr

// group gathers the references that are out by the stack that made them, which is who has to free, the
// most bytes held first. A slab counts once in each group that holds it. Its cost is linear in the list;
// only stacks that are shown are turned into names.
func group(list []tarn.Outstanding) *Outstanding {
	groups := map[stackKey]*Group{}
	holders := map[*Group]int{} // the slab that was counted last, by its place in the list
	references := 0
	for i, o := range list {
		refs := o.References
		if len(refs) == 0 {
			refs = []tarn.Reference{{Size: o.Seen, Stack: o.Stack}}
		}
		references += len(refs)
		every := max(o.Every, 1)
		for _, r := range refs {
			var key stackKey
			copy(key[:], r.Stack)
			g := groups[key]
			if g == nil {
				g = &Group{Place: r.Stack.Title()}
				groups[key] = g
			}
			g.Count += every
			g.Bytes += int64(every) * int64(r.Size)
			g.Ages[ageBand(o.Age)] += every
			g.Oldest = max(g.Oldest, o.Age.Seconds())
			if last, ok := holders[g]; !ok || last != i {
				holders[g] = i
				g.Pinned += int64(every) * int64(o.Pinned)
			}
		}
	}
	keys := make([]stackKey, 0, len(groups))
	for k := range groups {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b stackKey) int {
		x, y := groups[a], groups[b]
		switch {
		case x.Pinned != y.Pinned:
			return int(min(max(y.Pinned-x.Pinned, -1), 1))
		case x.Oldest != y.Oldest && x.Oldest > y.Oldest:
			return -1
		case x.Oldest != y.Oldest:
			return 1
		}
		return slices.Compare(a[:], b[:])
	})
	out := &Outstanding{Watched: references, More: max(len(keys)-maxGroups, 0)}
	for _, k := range keys[:min(len(keys), maxGroups)] {
		g := groups[k]
		g.Stack = callers(k)
		out.Groups = append(out.Groups, *g)
	}
	return out
}

// ageBand sorts ages as Group.Ages counts them.
func ageBand(age time.Duration) int {
	switch {
	case age < time.Second:
		return 0
	case age < time.Minute:
		return 1
	case age < 10*time.Minute:
		return 2
	default:
		return 3
	}
}

// callers names the frames of a stack, from the first one outside the pool's own methods.
func callers(key stackKey) []Caller {
	n := slices.Index(key[:], 0)
	if n < 0 {
		n = len(key)
	}
	if n == 0 {
		return nil
	}
	var stack []Caller
	frames := runtime.CallersFrames(key[:n])
	for {
		f, more := frames.Next()
		if f.Function != "" && f.Function != "runtime.goexit" && (len(stack) > 0 || !more || !poolMethod(f.Function)) {
			stack = append(stack, Caller{Func: f.Function, File: filepath.Base(f.File), Line: f.Line})
		}
		if !more {
			return stack
		}
	}
}

// poolMethod reports whether a function is a method of package tarn's own types.
func poolMethod(name string) bool {
	method, ok := strings.CutPrefix(name, "github.com/tarn-go/tarn.")
	return ok && (strings.HasPrefix(method, "(") || strings.HasPrefix(method, "Buffer."))
}
