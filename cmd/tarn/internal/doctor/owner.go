package doctor

import (
	"strings"

	"github.com/google/pprof/profile"
)

// owner is the code that a sample's time or memory is due to.
type owner string

const (
	ownGRPC    owner = "grpc-go"
	ownHTTP2   owner = "net/http's HTTP/2"
	ownSMB     owner = "go-smb2"
	ownTarn    owner = "Tarn"
	ownChecks  owner = "Tarn's checks"
	ownRuntime owner = "the runtime" // no other code has called it
	ownRest    owner = "the program and its other modules"
)

// packages says whose the functions are whose names begin so. The first that matches counts.
var packages = []struct {
	prefix string
	owner  owner
}{
	{"google.golang.org/grpc/health", ownRest}, // handlers and generated code
	{"google.golang.org/grpc/reflection", ownRest},
	{"google.golang.org/grpc", ownGRPC},
	{"net/http.(*http2", ownHTTP2},
	{"net/http.http2", ownHTTP2},
	{"net/http/internal/http2", ownHTTP2}, // since Go 1.27
	{"golang.org/x/net/http2", ownHTTP2},
	{"golang.org/x/net/internal/httpcommon", ownHTTP2},
	{"github.com/hirochachacha/go-smb2", ownSMB},
	{"github.com/cloudsoda/go-smb2", ownSMB},
	{"github.com/tarn-go/tarn/internal/track", ownChecks},
	{"github.com/tarn-go/tarn/internal/guard", ownChecks},
	{"github.com/tarn-go/tarn/examples", ownRest},
	{"github.com/tarn-go/tarn", ownTarn},
}

// ownerOf returns whose the innermost function is that does not belong to the standard library: what a library's function calls there is
// done for it. HTTP/2's frames below grpc-go are grpc-go's.
func ownerOf(s *profile.Sample) owner {
	found := ownRuntime
	for name := range frames(s) {
		o := ownerOfFunction(name)
		switch {
		case o == "" || found == ownHTTP2 && o == ownHTTP2:
			continue
		case found == ownHTTP2 && o == ownGRPC:
			return ownGRPC
		case found == ownHTTP2:
			return found
		case o != ownHTTP2:
			return o
		}
		found = o
	}
	return found
}

// ownerOfFunction returns whose a function is; "": it is the standard library's.
func ownerOfFunction(name string) owner {
	for _, p := range packages {
		if strings.HasPrefix(name, p.prefix) {
			return p.owner
		}
	}
	first, _, _ := strings.Cut(name, "/")
	if strings.HasPrefix(name, "main.") || strings.Contains(name, "/") && strings.Contains(first, ".") {
		return ownRest
	}
	return ""
}

// activity is what a sample's time is spent on, if not on the code itself.
type activity string

const (
	collecting activity = "garbage collection"
	allocating activity = "allocation (mallocgc)"
	clearing   activity = "clearing (memclr)"
	copying    activity = "copying (memmove)"
	calling    activity = "system calls"
	computing  activity = "" // the rest
)

// activities are those that are shown.
var activities = []activity{collecting, allocating, clearing, copying, calling}

// activityOf returns what a sample's time is spent on. The outermost of what the runtime does for an allocation does not count, but the
// innermost: clearing within an allocation is clearing, and its help for the collector is collecting.
func activityOf(s *profile.Sample) activity {
	for name := range frames(s) {
		switch rest, ok := strings.CutPrefix(name, "runtime."); {
		case strings.HasPrefix(name, "internal/runtime/syscall") || strings.HasPrefix(name, "syscall."): // the packages below it differ between systems
			return calling
		case strings.HasPrefix(name, "internal/"): // the runtime's own packages, such as the collector's; what has called them decides
		case !ok:
			return computing
		case strings.HasPrefix(rest, "memclr"):
			return clearing
		case strings.HasPrefix(rest, "memmove"):
			return copying
		case strings.HasPrefix(rest, "gcBgMarkWorker"), strings.HasPrefix(rest, "gcAssistAlloc"), strings.HasPrefix(rest, "gcDrain"), strings.HasPrefix(rest, "bgsweep"),
			strings.HasPrefix(rest, "bgscavenge"), strings.HasPrefix(rest, "scanobject"), strings.HasPrefix(rest, "gcStart"), strings.HasPrefix(rest, "gcMark"):
			return collecting
		case strings.HasPrefix(rest, "mallocgc"):
			return allocating
		}
	}
	return computing
}

// frames yields the names of a sample's functions, the innermost first.
func frames(s *profile.Sample) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, l := range s.Location {
			for _, line := range l.Line {
				if line.Function != nil && !yield(line.Function.Name) {
					return
				}
			}
		}
	}
}
