package interop

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// callOptions are the call options that rpc honours by their type. All of grpc-go's work
// with it, because they are grpc-go's; a new one needs a case in rpc's call_options.go.
var callOptions = strings.Fields(`CallAuthority CallContentSubtype ForceCodec ForceCodecV2 Header MaxCallRecvMsgSize
	MaxCallSendMsgSize MaxRetryRPCBufferSize OnFinish Peer PerRPCCredentials StaticMethod Trailer UseCompressor WaitForReady`)

// TestOptionParity: every option of grpc-go that is not deprecated has a counterpart of
// the same name in rpc.
func TestOptionParity(t *testing.T) {
	ours := optionsIn(t, "../rpc")
	theirs := optionsIn(t, moduleDir(t, "google.golang.org/grpc"))
	ours["CallOption"] = append(ours["CallOption"], callOptions...)
	for _, kind := range []string{"DialOption", "ServerOption", "CallOption"} {
		if len(theirs[kind]) < 10 {
			t.Fatalf("only %d functions of grpc-go return a %s", len(theirs[kind]), kind)
		}
		have := map[string]bool{}
		for _, name := range ours[kind] {
			have[name] = true
		}
		for _, name := range theirs[kind] {
			if !have[name] {
				t.Errorf("grpc.%s has no counterpart", name)
			}
		}
	}
}

func moduleDir(t *testing.T, path string) string {
	t.Helper()
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", path).Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// optionsIn lists the exported functions of a package that return an option, by the
// option's type, without the deprecated ones.
func optionsIn(t *testing.T, dir string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !fn.Name.IsExported() || fn.Type.Results == nil || len(fn.Type.Results.List) != 1 {
				continue
			}
			if strings.Contains(fn.Doc.Text(), "Deprecated:") {
				continue
			}
			if id, ok := fn.Type.Results.List[0].Type.(*ast.Ident); ok {
				out[id.Name] = append(out[id.Name], fn.Name.Name)
			}
		}
	}
	return out
}
