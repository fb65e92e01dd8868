package smb_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Package smb uses everything that belongs to a connection (sockets, frames, credits, signing, encryption,
// the login) only through package conn.
func TestFileLayerWalls(t *testing.T) {
	const internal = "github.com/tarn-go/tarn/smb/internal/"
	// What a file may import besides conn, proto and the standard library without package net.
	extra := map[string][]string{
		"dialer.go":        {"net"},                                  // makes the Dialer's connections
		"dfs_namespace.go": {"net"},                                  // addresses of other servers
		"domain.go":        {"net"},                                  // looks up names in DNS
		"server.go":        {"net"},                                  // makes a session's connections
		"initiator.go":     {internal + "spnego"},                    // its interface of mechanisms
		"ntlm.go":          {internal + "ntlm"},                      // an Initiator
		"pipe.go":          {internal + "dcerpc"},                    // a protocol on top of files
		"errors.go":        {"syscall"}, "share_ops.go": {"syscall"}, // error numbers
	}
	files, err := filepath.Glob("*.go")
	must(t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		must(t, err)
		for _, spec := range parsed.Imports {
			path, err := strconv.Unquote(spec.Path.Value)
			must(t, err)
			walled := path == "net" || path == "syscall" || strings.HasSuffix(path, "/wire") ||
				strings.HasPrefix(path, internal) && path != internal+"conn" && path != internal+"proto"
			if walled && !slices.Contains(extra[file], path) {
				t.Errorf("%s imports %s, which belongs to package conn", file, path)
			}
		}
	}
}

// A Conn has eight exported methods and no exported field. Further needs of the layer above belong in package
// conn.
func TestConnIsNarrow(t *testing.T) {
	const dir = "internal/conn"
	entries, err := os.ReadDir(dir)
	must(t, err)
	var methods []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, e.Name()), nil, 0)
		must(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv != nil && n.Name.IsExported() && receiver(n) == "Conn" {
					methods = append(methods, n.Name.Name)
				}
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok && n.Name.Name == "Conn" {
					for _, field := range s.Fields.List {
						for _, name := range field.Names {
							if name.IsExported() {
								t.Errorf("Conn has the exported field %s", name)
							}
						}
					}
				}
			}
			return true
		})
	}
	slices.Sort(methods)
	want := []string{"Alive", "Close", "Connect", "Echo", "Err", "Figures", "Keyed", "Logoff", "LostChange", "Terms", "Wait"}
	if !slices.Equal(methods, want) {
		t.Errorf("methods of Conn: %v, want %v", methods, want)
	}
}

// receiver is the name of the type that fn is a method of.
func receiver(fn *ast.FuncDecl) string {
	typ := fn.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if id, ok := typ.(*ast.Ident); ok {
		return id.Name
	}
	return ""
}
