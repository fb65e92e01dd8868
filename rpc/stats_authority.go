package rpc

import (
	"reflect"

	"google.golang.org/grpc/stats"
)

// authorityField is the index of the Authority of stats.OutHeader, a field that grpc-go has from 1.85 on; nil before.
var authorityField = func() []int {
	f, ok := reflect.TypeFor[stats.OutHeader]().FieldByName("Authority")
	if !ok || f.Type.Kind() != reflect.String {
		return nil
	}
	return f.Index
}()

// setAuthority sets the Authority of h, if it has one.
func setAuthority(h *stats.OutHeader, authority string) {
	if authorityField != nil {
		reflect.ValueOf(h).Elem().FieldByIndex(authorityField).SetString(authority)
	}
}
