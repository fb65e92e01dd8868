package interop

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc"
	"google.golang.org/grpc"
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

// elsewhere has the options of grpc-go's other packages, and where their counterparts are: in rpc, but for OpenTelemetry's.
var elsewhere = map[string]string{
	"experimental.WithBufferPool":          "WithBufferPool",
	"experimental.BufferPool":              "BufferPool",
	"experimental.AcceptCompressors":       "", // works as it is
	"orca.CallMetricsServerOption":         "CallMetricsServerOption",
	"stats/opentelemetry.DialOption":       "opentelemetry.DialOption",
	"stats/opentelemetry.ServerOption":     "opentelemetry.ServerOption",
	"stats/opentelemetry/csm.DialOption":   "", // xDS
	"stats/opentelemetry/csm.ServerOption": "",
	"xds.ServingModeCallback":              "",
	"xds.BootstrapContentsForTesting":      "",
	"xds.ClientPoolForTesting":             "",
}

// TestOptionsOfOtherPackages: the options of all public packages of grpc-go are known, and their counterparts exist.
func TestOptionsOfOtherPackages(t *testing.T) {
	root := moduleDir(t, "google.golang.org/grpc")
	ours := map[string]bool{}
	for prefix, dir := range map[string]string{"": "../rpc", "opentelemetry.": "../rpc/opentelemetry"} {
		for _, names := range optionsIn(t, dir) {
			for _, name := range names {
				ours[prefix+name] = true
			}
		}
	}
	found := 0
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || !d.IsDir() || path == root:
			return err
		case d.Name() == "internal" || d.Name() == "testdata" || d.Name() == "examples":
			return fs.SkipDir
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		options := optionsIn(t, path)
		for _, kind := range []string{"DialOption", "ServerOption", "CallOption"} {
			for _, name := range options[kind] {
				found++
				full := filepath.ToSlash(rel) + "." + name
				if counterpart, known := elsewhere[full]; !known || counterpart != "" && !ours[counterpart] {
					t.Errorf("%s has no counterpart (%q)", full, counterpart)
				}
			}
		}
		return nil
	})
	if err != nil || found < 5 {
		t.Errorf("%d options of other packages, %v", found, err)
	}
}

// TestMethodParity: rpc's ClientConn and Server have the methods of grpc-go's that are not deprecated, of the same types, but for
// GetMethodConfig, whose result is a type of grpc-go's service config.
func TestMethodParity(t *testing.T) {
	for _, c := range []struct{ theirs, ours reflect.Type }{
		{reflect.TypeFor[*grpc.ClientConn](), reflect.TypeFor[*rpc.ClientConn]()},
		{reflect.TypeFor[*grpc.Server](), reflect.TypeFor[*rpc.Server]()},
	} {
		if c.theirs.NumMethod() < 5 {
			t.Fatalf("%v has %d methods", c.theirs, c.theirs.NumMethod())
		}
		for want := range c.theirs.Methods() {
			if want.Name == "GetMethodConfig" {
				continue
			}
			m, ok := c.ours.MethodByName(want.Name)
			if !ok {
				t.Errorf("%v has no method %s", c.ours, want.Name)
				continue
			}
			types := func(f reflect.Type) (out []string) {
				for i := 1; i < f.NumIn(); i++ {
					out = append(out, f.In(i).String())
				}
				for o := range f.Outs() {
					out = append(out, "-> "+o.String())
				}
				return out
			}
			if a, b := types(want.Type), types(m.Type); !slices.Equal(a, b) {
				t.Errorf("%s of %v has %q, of %v %q", want.Name, c.theirs, a, c.ours, b)
			}
		}
	}
}

// TestOptionsHaveEffects: each option of rpc is in a test, and those without an effect are the ones that the page on
// migration lists and that say so themselves.
func TestOptionsHaveEffects(t *testing.T) {
	var tests strings.Builder
	for _, dir := range []string{"../rpc", "../rpc/channelz", "."} {
		files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%d tests in %s, %v", len(files), dir, err)
		}
		for _, file := range files {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tests.Write(src)
		}
	}
	page, err := os.ReadFile("../docs/migrate-grpc.md")
	if err != nil {
		t.Fatal(err)
	}
	_, listed, found := strings.Cut(string(page), "These options are accepted and have no effect")
	listed, _, ended := strings.Cut(listed, "\n\n")
	if !found || !ended {
		t.Fatal("the page has no list of options without effect")
	}
	ours := optionsIn(t, "../rpc")
	without := optionsSaying(t, "../rpc", "has no effect:")
	if len(ours["DialOption"]) < 40 || len(ours["ServerOption"]) < 35 || len(without) < 5 {
		t.Fatalf("%d and %d options, %d without effect", len(ours["DialOption"]), len(ours["ServerOption"]), len(without))
	}
	for _, name := range slices.Concat(ours["DialOption"], ours["ServerOption"]) {
		if !regexp.MustCompile(`\b` + name + `\(`).MatchString(tests.String()) {
			t.Errorf("no test sets rpc.%s", name)
		}
		if in := strings.Contains(listed, "`"+name+"`"); in != slices.Contains(without, name) {
			t.Errorf("rpc.%s is listed as without effect: %v; its comment says so: %v", name, in, !in)
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
	eachOption(t, dir, func(fn *ast.FuncDecl, option string) {
		if !strings.Contains(fn.Doc.Text(), "Deprecated:") {
			out[option] = append(out[option], fn.Name.Name)
		}
	})
	return out
}

// optionsSaying lists those whose comment contains a text.
func optionsSaying(t *testing.T, dir, text string) (out []string) {
	t.Helper()
	eachOption(t, dir, func(fn *ast.FuncDecl, _ string) {
		if strings.Contains(fn.Doc.Text(), text) {
			out = append(out, fn.Name.Name)
		}
	})
	return out
}

// eachOption calls f for the exported functions of a package with one result, and the name of its type without its package.
func eachOption(t *testing.T, dir string, f func(fn *ast.FuncDecl, option string)) {
	t.Helper()
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
		parsed, err := parser.ParseFile(token.NewFileSet(), file, src, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Recv != nil || !fn.Name.IsExported() || fn.Type.Results == nil || len(fn.Type.Results.List) != 1 {
				continue
			}
			switch typ := fn.Type.Results.List[0].Type.(type) {
			case *ast.Ident:
				f(fn, typ.Name)
			case *ast.SelectorExpr:
				f(fn, typ.Sel.Name)
			}
		}
	}
}
