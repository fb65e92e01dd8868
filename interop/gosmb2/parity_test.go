package gosmb2

import (
	"go/types"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

const (
	cloudsoda     = "github.com/cloudsoda/go-smb2"
	hirochachacha = "github.com/hirochachacha/go-smb2"
	root          = "github.com/tarn-go/tarn/smb/gosmb2"
	kerberos      = "github.com/tarn-go/tarn/smb/krb5/gosmb2"
)

const (
	needsKerberos = "needs gokrb5: it is in smb/krb5/gosmb2"
	needsSDDL     = "needs cloudsoda/sddl: it is in smb/krb5/gosmb2"
	conflicts     = "cloudsoda's go-smb2 has another signature, which is the one kept"
	oneVariable   = "a variable cannot be had twice: it is in smb/gosmb2"
)

// exceptions are the names that are missing, with the reason. An exception whose name exists fails the test.
var exceptions = map[[2]string]map[string]string{
	{cloudsoda, root}: {
		"type Krb5Initiator":                    needsKerberos,
		"type SecurityDescriptorEncoder":        needsSDDL,
		"field DirEntryPlus.SecurityDescriptor": needsSDDL,
		"method File.SecurityInfo":              needsSDDL,
		"method File.SetSecurityInfo":           needsSDDL,
		"method Share.SecurityInfo":             needsSDDL,
		"method Share.SetSecurityInfo":          needsSDDL,

		"method RemoteFile.SecurityInfo":          needsSDDL,
		"method RemoteFile.SetSecurityInfo":       needsSDDL,
		"method RemoteFileSystem.SecurityInfo":    needsSDDL,
		"method RemoteFileSystem.SetSecurityInfo": needsSDDL,
	},
	{cloudsoda, kerberos}: {"var NORMALIZE_PATH": oneVariable},
	{hirochachacha, root}: {
		"method Dialer.Dial":        conflicts,
		"method Dialer.DialContext": "it is DialConn",
		"method Session.Mount":      conflicts,
		"method Client.Mount":       conflicts,
		"type Initiator":            conflicts,
	},
}

// Every exported name of go-smb2 exists in the package that replaces it, with the same type, method by method
// and field by field.
func TestAPI(t *testing.T) {
	cfg := &packages.Config{Mode: packages.NeedName | packages.NeedTypes | packages.NeedImports | packages.NeedDeps}
	loaded, err := packages.Load(cfg, cloudsoda, hirochachacha, root, kerberos)
	if err != nil {
		t.Fatal(err)
	}
	apis := map[string]map[string]string{}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			t.Fatalf("%s: %v", p.PkgPath, p.Errors)
		}
		apis[p.PkgPath] = api(p.Types)
	}
	for pair, missing := range exceptions {
		t.Run(pair[0]+" by "+pair[1], func(t *testing.T) {
			theirs, ours := apis[pair[0]], apis[pair[1]]
			if len(theirs) < 100 {
				t.Fatalf("only %d names", len(theirs))
			}
			for _, name := range slices.Sorted(maps.Keys(theirs)) {
				owner, _, _ := strings.Cut(strings.SplitN(name, " ", 2)[1], ".")
				have, ok := ours[name]
				same := ok && have == theirs[name]
				_, whole := missing["type "+owner]
				_, excepted := missing[name]
				switch {
				case same && excepted:
					t.Errorf("%s is no exception any more", name)
				case same || excepted || whole:
				case !ok:
					t.Errorf("%s is missing", name)
				default:
					t.Errorf("%s is %s, and in %s %s", name, have, pair[0], theirs[name])
				}
			}
			for name := range missing {
				if _, ok := theirs[name]; !ok {
					t.Errorf("an exception for %s, which %s does not have", name, pair[0])
				}
			}
			t.Logf("%d names compared, %d exceptions", len(theirs), len(missing))
		})
	}
}

// api is a package's exported names: "kind name" and the type of it.
func api(p *types.Package) map[string]string {
	out := map[string]string{}
	for _, name := range p.Scope().Names() {
		obj := p.Scope().Lookup(name)
		if !obj.Exported() {
			continue
		}
		switch obj := obj.(type) {
		case *types.Const:
			out["const "+name] = text(obj.Type()) + " = " + obj.Val().ExactString()
		case *types.Var:
			out["var "+name] = text(obj.Type())
		case *types.Func:
			out["func "+name] = text(obj.Type())
		case *types.TypeName:
			describe(out, name, obj)
		}
	}
	return out
}

func describe(out map[string]string, name string, obj *types.TypeName) {
	under := obj.Type().Underlying()
	switch under := under.(type) {
	case *types.Struct:
		out["type "+name] = "struct"
		for f := range under.Fields() {
			if f.Exported() && !f.Embedded() {
				out["field "+name+"."+f.Name()] = text(f.Type())
			}
		}
	case *types.Signature: // of an option: its parameter is not compared
		out["type "+name] = "func"
	default:
		out["type "+name] = text(under)
	}
	receiver := types.Type(types.NewPointer(obj.Type()))
	if types.IsInterface(obj.Type()) {
		receiver = obj.Type()
	}
	set := types.NewMethodSet(receiver)
	for m := range set.Methods() {
		if m.Obj().Exported() {
			out["method "+name+"."+m.Obj().Name()] = text(m.Type())
		}
	}
}

// text is a type without the packages that differ between the peers, and without the names of
// parameters.
func text(t types.Type) string {
	if sig, ok := t.(*types.Signature); ok {
		t = types.NewSignatureType(nil, nil, nil, unnamed(sig.Params()), unnamed(sig.Results()), sig.Variadic())
	}
	return spelling.Replace(peer.ReplaceAllString(types.TypeString(t, nil), "smb2"))
}

// spelling replaces a type's second name by the first.
var spelling = strings.NewReplacer("interface{}", "any", "io/fs.FileInfo", "os.FileInfo", "io/fs.FileMode", "os.FileMode")

var peer = regexp.MustCompile(`github\.com/(?:cloudsoda|hirochachacha)/go-smb2(?:/internal/smb2)?|github\.com/tarn-go/tarn/smb/(?:krb5/)?gosmb2`)

func unnamed(vars *types.Tuple) *types.Tuple {
	var out []*types.Var
	for v := range vars.Variables() {
		out = append(out, types.NewParam(v.Pos(), v.Pkg(), "", v.Type()))
	}
	return types.NewTuple(out...)
}
