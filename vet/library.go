package vet

// This file lists the analyser's built-in contracts of the standard library.

import (
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/stdlib"
)

// failsTest are methods of testing.TB after which the test continues, but has failed: such a path is not
// followed.
var failsTest = map[string]bool{"Error": true, "Errorf": true, "Fail": true}

// borrowers are packages of the standard library whose functions keep none of their arguments beyond the
// call.
var borrowers = map[string]bool{
	"bytes": true, "crypto/subtle": true, "encoding/binary": true, "encoding/hex": true, "errors": true, "fmt": true,
	"hash": true, "hash/crc32": true, "io": true, "math/rand": true, "math/rand/v2": true, "reflect": false, "slices": true,
	"strconv": true, "strings": true, "sync": true, "sync/atomic": true, "testing": true, "time": true, "unicode/utf8": true,
	"crypto/rand": true, "crypto/cipher": true, "math": true, "math/bits": true, "log": true, "log/slog": false, "cmp": true,
	"runtime": true, "context": true, "os": true, "net": true,
}

// wrappers are functions of those packages that do keep their argument.
var wrappers = map[string]bool{
	"io.TeeReader": true, "io.LimitReader": true, "io.MultiReader": true, "io.MultiWriter": true, "io.NewSectionReader": true,
	"io.NopCloser": true, "bytes.NewReader": true, "bytes.NewBuffer": true, "errors.Join": true, "context.WithValue": true,
	"runtime.SetFinalizer": true, "runtime.AddCleanup": true,
}

// borrowsArguments reports whether a function of the standard library only reads its arguments during the
// call.
func borrowsArguments(fn *types.Func) bool {
	pkg := fn.Pkg()
	if pkg == nil {
		return true // error.Error
	}
	return borrowers[pkg.Path()] && !wrappers[pkg.Path()+"."+fn.Name()]
}

// later are functions that run their function argument after they have returned, and when that is. Their
// result may stop it.
var later = map[string]string{
	"time.AfterFunc": "when the timer fires", "context.AfterFunc": "when the context ends",
	"testing.Cleanup": "when the test ends", "net/http.HandleFunc": forEachRequest,
	"runtime.AddCleanup": "after a garbage collection", "runtime.SetFinalizer": "after a garbage collection",
}

// afterFuncs are those of later that run their function argument once, in a goroutine of its own.
var afterFuncs = map[string]bool{"time.AfterFunc": true, "context.AfterFunc": true}

// spawns are methods that run their function argument in a goroutine of its own; mayTry may run it.
var (
	spawns = map[string]bool{"sync.Go": true, "golang.org/x/sync/errgroup.Go": true}
	mayTry = map[string]bool{"golang.org/x/sync/errgroup.TryGo": true}
)

// forEachRequest is when a handler runs: what it uses must live as long as the program.
const forEachRequest = "for each request"

// isCleanup reports whether fn is the method Cleanup of a testing.TB.
func isCleanup(fn *types.Func) bool {
	return fn != nil && fn.Name() == "Cleanup" && fn.Pkg() != nil && fn.Pkg().Path() == "testing"
}

// computing are packages whose functions wait for no other goroutine.
var computing = map[string]bool{
	"bytes": true, "cmp": true, "encoding/binary": true, "encoding/hex": true, "encoding/json": true, "errors": true, "hash/crc32": true,
	"log": true, "math": true, "math/bits": true, "slices": true, "sort": true, "strconv": true, "strings": true,
	"unicode": true, "unicode/utf8": true,
}

// computes reports whether a call certainly waits for no other goroutine.
func (f *function) computes(c *ssa.CallCommon) bool {
	fn := code.Callee(c)
	switch {
	case fn == nil:
		return false
	case contracts.Primitive(f.kinds, fn) != nil:
		return true
	case fn.Pkg() == nil || c.IsInvoke():
		return false
	case fn.Pkg().Path() == "fmt":
		return !strings.HasPrefix(fn.Name(), "F") && !strings.Contains(fn.Name(), "Scan")
	}
	_, known := later[stdlib.Name(fn)]
	return known || computing[fn.Pkg().Path()]
}
