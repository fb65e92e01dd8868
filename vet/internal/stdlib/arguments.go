package stdlib

// This file says what functions do with their arguments: which they keep, read, write, or run later.

import (
	"go/types"
	"strings"
)

// failsTest are methods of testing.TB after which the test continues, but has failed.
var failsTest = map[string]bool{"Error": true, "Errorf": true, "Fail": true}

// FailsTest reports whether a function marks the test as failed, and continues it.
func FailsTest(fn *types.Func) bool {
	return fn != nil && fn.Pkg() != nil && fn.Pkg().Path() == "testing" && failsTest[fn.Name()]
}

// borrowers are packages whose functions keep none of their arguments beyond the call.
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

// Borrows reports whether a function is one of the standard library that only reads its arguments during the call.
func Borrows(fn *types.Func) bool {
	if fn == nil {
		return false
	}
	if fn.Pkg() == nil {
		return true // error.Error
	}
	return borrowers[fn.Pkg().Path()] && !wrappers[Name(fn)]
}

// Prints reports whether a function prints its arguments, and keeps none of them.
func Prints(fn *types.Func) bool {
	return fn != nil && fn.Pkg() != nil && (Borrows(fn) || fn.Pkg().Path() == "log/slog")
}

// ForEachRequest is when a handler runs: what it uses must live as long as the program.
const ForEachRequest = "for each request"

// later are functions that run their function argument after they have returned, and when that is.
var later = map[string]string{
	"time.AfterFunc": "when the timer fires", "context.AfterFunc": "when the context ends",
	"testing.Cleanup": "when the test ends", "net/http.HandleFunc": ForEachRequest,
	"runtime.AddCleanup": "after a garbage collection", "runtime.SetFinalizer": "after a garbage collection",
}

// RunsLater says when a function runs its function argument, if that is after it has returned. Its result may stop it.
func RunsLater(fn *types.Func) (when string, ok bool) {
	when, ok = later[Name(fn)]
	return when, ok
}

// RunsOnceLater reports whether RunsLater's function runs its function argument once, in a goroutine of its own.
func RunsOnceLater(fn *types.Func) bool {
	name := Name(fn)
	return name == "time.AfterFunc" || name == "context.AfterFunc"
}

// Spawns reports whether a function runs its function argument in a goroutine of its own.
func Spawns(fn *types.Func) bool {
	name := Name(fn)
	return name == "sync.Go" || name == "golang.org/x/sync/errgroup.Go"
}

// MaySpawn reports whether a function runs its function argument in a goroutine of its own, or does not run it.
func MaySpawn(fn *types.Func) bool { return Name(fn) == "golang.org/x/sync/errgroup.TryGo" }

// IsCleanup reports whether a function is the method Cleanup of a testing.TB.
func IsCleanup(fn *types.Func) bool { return Name(fn) == "testing.Cleanup" }

// computing are packages whose functions wait for no other goroutine.
var computing = map[string]bool{
	"bytes": true, "cmp": true, "encoding/binary": true, "encoding/hex": true, "encoding/json": true, "errors": true, "hash/crc32": true,
	"log": true, "math": true, "math/bits": true, "slices": true, "sort": true, "strconv": true, "strings": true,
	"unicode": true, "unicode/utf8": true,
}

// Computes reports whether a function, not called through an interface, certainly waits for no other goroutine.
func Computes(fn *types.Func) bool {
	if fn == nil || fn.Pkg() == nil {
		return false
	}
	if fn.Pkg().Path() == "fmt" {
		return !strings.HasPrefix(fn.Name(), "F") && !strings.Contains(fn.Name(), "Scan")
	}
	_, known := later[Name(fn)]
	return known || computing[fn.Pkg().Path()]
}

// readsFrom are functions and methods that read the bytes to which an argument leads, and which argument that is. The
// receiver is argument 0.
var readsFrom = map[string]int{
	"bufio.Peek": 0, "bufio.Read": 0, "bufio.ReadByte": 0, "bufio.ReadBytes": 0, "bufio.ReadLine": 0, "bufio.ReadRune": 0,
	"bufio.ReadSlice": 0, "bufio.ReadString": 0, "bufio.Scan": 0, "bufio.WriteTo": 0,
	"bytes.Next": 0, "bytes.Read": 0, "bytes.ReadAt": 0, "bytes.ReadByte": 0, "bytes.ReadBytes": 0, "bytes.ReadRune": 0,
	"bytes.ReadString": 0, "bytes.String": 0, "bytes.WriteTo": 0,
	"encoding/json.Decode": 0, "encoding/json.Token": 0,
	"io.Copy": 1, "io.CopyBuffer": 1, "io.CopyN": 1, "io.Read": 0, "io.ReadAll": 0, "io.ReadAt": 0, "io.ReadAtLeast": 0,
	"io.ReadByte": 0, "io.ReadFull": 0, "io.WriteTo": 0,
	"net.Read": 0, "net.WriteTo": 0, // of net.Buffers
}

// ReadsFrom is the argument through which a function reads bytes, if there is one. The receiver is argument 0.
func ReadsFrom(fn *types.Func) (i int, ok bool) {
	i, ok = readsFrom[Name(fn)]
	return i, ok
}

// Resets reports whether a method replaces the bytes to which its receiver leads by those of its argument.
func Resets(fn *types.Func) bool {
	name := Name(fn)
	return name == "bytes.Reset" || name == "bufio.Reset"
}

// Writes reports whether a function writes to its argument i, bytes.
func Writes(fn *types.Func, i int) bool {
	if fn == nil || fn.Pkg() == nil {
		return false
	}
	method := fn.Signature().Recv() != nil
	switch path, name := fn.Pkg().Path(), fn.Name(); path {
	case "encoding/binary":
		return strings.HasPrefix(name, "Put") && (i == 0 || method && i == 1)
	case "io":
		if name == "ReadFull" || name == "ReadAtLeast" {
			return i == 1
		}
	case "crypto/rand":
		return name == "Read"
	case "net":
		return strings.HasPrefix(name, "Read") && method && i == 1
	}
	return false
}
