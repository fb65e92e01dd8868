package xds

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/internal/grpcgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/codes"
)

// The place of grpc-go's selector: a key of this type, in the attributes of a resolver's state.
const (
	keyPackage = "google.golang.org/grpc/internal/resolver"
	keyType    = "csKeyType"
)

var errNoSelector = errors.New("the resolver's state has no config selector where it is expected")

// selectorOf returns the selector in a resolver's state of grpc-go's.
func selectorOf(a *attributes.Attributes) (rpc.ConfigSelector, error) {
	return newSelector(grpcgo.Attribute(a, keyPackage, keyType))
}

// selector is a selector of grpc-go's, called by reflection.
type selector struct {
	of     reflect.Value
	call   reflect.Value // its method SelectConfig, whose first argument is of: a method that is bound to it is made anew with each call
	layout *layout
	unused sync.Pool // of *arguments
}

// arguments are those of one call of SelectConfig, which copies them.
type arguments struct {
	info reflect.Value    // an RPCInfo
	list [2]reflect.Value // the selector and info
}

// layout is where the fields of grpc-go's types are. An index of -1 is a field that this version of grpc-go has not.
type layout struct {
	info                                    reflect.Type // RPCInfo
	context, method, authority              int
	chosen, settings, committed, intercepts int // RPCConfig
	timeout, retry                          int // MethodConfig
	attempts, initial, most, factor, codes  int // RetryPolicy
}

// newSelector checks that of has the types that are known.
func newSelector(of any) (rpc.ConfigSelector, error) {
	if of == nil {
		return nil, errNoSelector
	}
	v := reflect.ValueOf(of)
	m, ok := v.Type().MethodByName("SelectConfig")
	if !ok {
		return nil, fmt.Errorf("the config selector %T has no method SelectConfig", of)
	}
	l, err := layoutOf(v.Method(m.Index).Type())
	if err != nil {
		return nil, fmt.Errorf("the config selector %T: %w", of, err)
	}
	return &selector{of: v, call: m.Func, layout: l}, nil
}

// layoutOf checks the type of the method SelectConfig.
func layoutOf(t reflect.Type) (*layout, error) {
	if t.NumIn() != 1 || t.NumOut() != 2 || t.In(0).Kind() != reflect.Struct || t.Out(0).Kind() != reflect.Pointer ||
		t.Out(0).Elem().Kind() != reflect.Struct || t.Out(1) != reflect.TypeFor[error]() {
		return nil, fmt.Errorf("SelectConfig is a %v", t)
	}
	l := &layout{info: t.In(0), authority: -1}
	f := fields{of: t.In(0)}
	l.context = f.index("Context", reflect.TypeFor[context.Context]())
	l.method = f.index("Method", reflect.TypeFor[string]())
	if _, ok := f.of.FieldByName("Authority"); ok { // from 1.85 on
		l.authority = f.index("Authority", reflect.TypeFor[string]())
	}
	f.complete()

	f.open(t.Out(0).Elem())
	l.chosen = f.index("Context", reflect.TypeFor[context.Context]())
	l.settings = f.index("MethodConfig", nil)
	l.committed = f.index("OnCommitted", reflect.TypeFor[func()]())
	l.intercepts = f.index("Interceptor", reflect.TypeFor[any]())
	f.complete()
	if f.err != nil {
		return nil, f.err
	}

	f.open(f.of.Field(l.settings).Type)
	l.timeout = f.index("Timeout", reflect.TypeFor[*time.Duration]())
	l.retry = f.index("RetryPolicy", nil)
	// What xDS has no settings for, and is not read.
	f.index("WaitForReady", reflect.TypeFor[*bool]())
	f.index("MaxReqSize", reflect.TypeFor[*int]())
	f.index("MaxRespSize", reflect.TypeFor[*int]())
	f.complete()
	if f.err != nil {
		return nil, f.err
	}

	policy := f.of.Field(l.retry).Type
	if policy.Kind() != reflect.Pointer || policy.Elem().Kind() != reflect.Struct {
		return nil, fmt.Errorf("%v.RetryPolicy is a %v", f.of, policy)
	}
	f.open(policy.Elem())
	l.attempts = f.index("MaxAttempts", reflect.TypeFor[int]())
	l.initial = f.index("InitialBackoff", reflect.TypeFor[time.Duration]())
	l.most = f.index("MaxBackoff", reflect.TypeFor[time.Duration]())
	l.factor = f.index("BackoffMultiplier", reflect.TypeFor[float64]())
	l.codes = f.index("RetryableStatusCodes", reflect.TypeFor[map[codes.Code]bool]())
	f.complete()
	return l, f.err
}

// fields finds the fields of a struct, and fails unless it has those that are asked for and no other.
type fields struct {
	of    reflect.Type
	known int
	err   error
}

func (f *fields) open(of reflect.Type) {
	f.of, f.known = of, 0
	if f.err == nil && of.Kind() != reflect.Struct {
		f.err = fmt.Errorf("%v is not a struct", of)
	}
}

// index is that of a field of type t; nil is any.
func (f *fields) index(name string, t reflect.Type) int {
	if f.err != nil {
		return 0
	}
	field, ok := f.of.FieldByName(name)
	switch {
	case !ok || len(field.Index) != 1:
		f.err = fmt.Errorf("%v has no field %s", f.of, name)
		return 0
	case t != nil && field.Type != t:
		f.err = fmt.Errorf("%v.%s is a %v", f.of, name, field.Type)
	}
	f.known++
	return field.Index[0]
}

// complete fails if there are other fields: they may be settings of calls.
func (f *fields) complete() {
	if f.err == nil && f.of.NumField() != f.known {
		f.err = fmt.Errorf("%v has %d fields, of which %d are known", f.of, f.of.NumField(), f.known)
	}
}

// SelectConfig implements rpc.ConfigSelector.
func (s *selector) SelectConfig(i rpc.CallInfo) (rpc.CallConfig, error) {
	l := s.layout
	out := s.choose(i)
	if err, _ := out[1].Interface().(error); err != nil {
		return rpc.CallConfig{}, err
	}
	if out[0].IsNil() {
		return rpc.CallConfig{}, nil
	}
	chosen := out[0].Elem()
	var c rpc.CallConfig
	c.Context, _ = chosen.Field(l.chosen).Interface().(context.Context)
	c.Committed = chosen.Field(l.committed).Interface().(func())
	settings := chosen.Field(l.settings)
	if d := settings.Field(l.timeout).Interface().(*time.Duration); d != nil {
		c.Timeout = *d
	}
	if p := settings.Field(l.retry); !p.IsNil() {
		c.Retry = l.policy(p.Elem())
	}
	filters, err := newFilters(chosen.Field(l.intercepts), l.info)
	if err != nil {
		if c.Committed != nil {
			c.Committed()
		}
		return rpc.CallConfig{}, err
	}
	if filters.IsValid() {
		c.Intercept = l.interceptor(filters, i)
	}
	return c, nil
}

// choose calls grpc-go's SelectConfig.
func (s *selector) choose(i rpc.CallInfo) []reflect.Value {
	a, _ := s.unused.Get().(*arguments)
	if a == nil {
		a = &arguments{info: reflect.New(s.layout.info).Elem()}
		a.list = [2]reflect.Value{s.of, a.info}
	}
	s.layout.describe(a.info, i, i.Context)
	out := s.call.Call(a.list[:])
	a.info.SetZero() // the call's context is not kept
	s.unused.Put(a)
	return out
}

// interceptor is that of a route's filters, for the call i.
func (l *layout) interceptor(filters reflect.Value, i rpc.CallInfo) rpc.CallInterceptor {
	return func(ctx context.Context, next rpc.CallStreamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		info := reflect.New(l.info).Elem()
		l.describe(info, i, nil)
		return callFilters(filters, ctx, info, next, opts)
	}
}

// describe sets v, a zero RPCInfo of grpc-go's, to i with ctx, which may be nil.
func (l *layout) describe(v reflect.Value, i rpc.CallInfo, ctx context.Context) {
	if ctx != nil {
		v.Field(l.context).Set(reflect.ValueOf(ctx))
	}
	v.Field(l.method).SetString(i.Method)
	if l.authority >= 0 {
		v.Field(l.authority).SetString(i.Authority)
	}
}

func (l *layout) policy(v reflect.Value) *rpc.RetryPolicy {
	p := &rpc.RetryPolicy{
		MaxAttempts:       int(v.Field(l.attempts).Int()),
		InitialBackoff:    time.Duration(v.Field(l.initial).Int()),
		MaxBackoff:        time.Duration(v.Field(l.most).Int()),
		BackoffMultiplier: v.Field(l.factor).Float(),
	}
	retried := v.Field(l.codes).Interface().(map[codes.Code]bool)
	p.RetryableStatusCodes = make([]codes.Code, 0, len(retried))
	for code, yes := range retried {
		if yes {
			p.RetryableStatusCodes = append(p.RetryableStatusCodes, code)
		}
	}
	return p
}
