package rpc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tarn-go/tarn/h2"
	"google.golang.org/grpc/codes"
)

// manyFields is per-RPC credentials with several fields.
type manyFields map[string]string

func (m manyFields) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return m, nil
}
func (manyFields) RequireTransportSecurity() bool { return false }

// TestOrderOfTokens: the fields of credentials are sorted, like all metadata, and follow those that are there already.
func TestOrderOfTokens(t *testing.T) {
	names := []string{"authorization", "x-a", "x-b", "x-c", "x-d", "x-e", "x-f", "x-g"}
	p := manyFields{}
	for _, n := range names {
		p[strings.ToUpper(n)] = n
	}
	for range 20 {
		fs, err := appendToken([]h2.Field{{Name: "z"}}, 1, t.Context(), p, "", codes.Unauthenticated)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range fs[1:] {
			got = append(got, f.Name)
			if f.Value != f.Name || !f.Sensitive {
				t.Errorf("%+v is not the field that was given", f)
			}
		}
		if fs[0].Name != "z" || !slices.Equal(got, names) {
			t.Fatalf("got %q after %q", got, fs[0].Name)
		}
	}
}

// TestRoutes: the method called first, others, and no more than maxRoutes of these are stored; a method is stored once.
func TestRoutes(t *testing.T) {
	var b routes
	if b.get("first") != nil {
		t.Error("an empty store has a method")
	}
	first := &route{method: "first"}
	b.put(first)
	if b.get("first") != first || b.get("other") != nil || b.m.Load() != nil {
		t.Error("the first method is not stored by itself")
	}
	others := make([]*route, maxRoutes+1)
	for i := range others {
		others[i] = &route{method: fmt.Sprint(i)}
		b.put(others[i])
	}
	for i, r := range others[:maxRoutes] {
		if b.get(r.method) != r {
			t.Fatalf("method %d is not stored", i)
		}
	}
	if b.get(others[maxRoutes].method) != nil || len(*b.m.Load()) != maxRoutes {
		t.Errorf("%d methods beside the first are stored, not %d", len(*b.m.Load()), maxRoutes)
	}
	if b.get("first") != first {
		t.Error("the first method was lost")
	}
}
