package grpcgo

import (
	"net/url"
	"reflect"

	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/resolver"
)

// Attribute returns what grpc-go has put into a under a key that cannot be named: a string whose type is that name of an internal package. nil if there
// is none. The key itself is in an unexported field and cannot be used; an equal one is made of its type and its text.
func Attribute(a *attributes.Attributes, pkg, name string) any {
	key := findKey(reflect.ValueOf(a), keyDepth, pkg, name)
	if key == nil {
		return nil
	}
	return a.Value(key)
}

// keyDepth bounds the walk through attributes: one has eight values at most, each a step of two or three.
const keyDepth = 64

// findKey walks through attributes, which are a map or a list in different versions of grpc-go.
func findKey(v reflect.Value, depth int, pkg, name string) any {
	if depth == 0 {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return nil
		}
		if v.Kind() == reflect.Pointer && v.Type() != reflect.TypeFor[*attributes.Attributes]() {
			return nil // a value
		}
		return findKey(v.Elem(), depth-1, pkg, name)
	case reflect.String:
		if t := v.Type(); t.PkgPath() == pkg && t.Name() == name {
			key := reflect.New(t).Elem()
			key.SetString(v.String())
			return key.Interface()
		}
	case reflect.Struct:
		if v.Type() != reflect.TypeFor[attributes.Attributes]() {
			return nil
		}
		for i := range v.NumField() {
			if key := findKey(v.Field(i), depth-1, pkg, name); key != nil {
				return key
			}
		}
	case reflect.Map:
		for it := v.MapRange(); it.Next(); {
			if key := findKey(it.Key(), depth-1, pkg, name); key != nil {
				return key
			}
		}
	}
	return nil
}

// Proxied is what an address whose Addr is a proxy's says: where the proxy is to connect to.
type Proxied struct {
	To   string        // "" if it cannot be read: the address must not be connected to
	User *url.Userinfo // for the proxy; may be nil
}

// ProxyOf returns what grpc-go has added to the address of an endpoint that is reached through an HTTP CONNECT proxy (gRFC A86); false if it has
// added nothing.
func ProxyOf(addr *resolver.Address) (Proxied, bool) {
	o := reflect.ValueOf(Attribute(addr.Attributes, "google.golang.org/grpc/internal/proxyattributes", "keyType"))
	if !o.IsValid() {
		return Proxied{}, false
	}
	var p Proxied
	if o.Kind() != reflect.Struct {
		return p, true
	}
	to, user := o.FieldByName("ConnectAddr"), o.FieldByName("User")
	if to.Kind() == reflect.String && user.IsValid() && user.Type() == reflect.TypeFor[*url.Userinfo]() {
		p.To, p.User = to.String(), user.Interface().(*url.Userinfo)
	}
	return p, true
}
