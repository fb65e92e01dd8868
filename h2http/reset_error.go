package h2http

import (
	"fmt"
	"reflect"

	"github.com/tarn-go/tarn/h2"
)

// resetError is an *h2.StreamError in the form that programs know of net/http: its text, by which connect-go finds
// the code, and errors.As to golang.org/x/net/http2's StreamError.
type resetError struct {
	id    uint32
	err   *h2.StreamError
	cause error // nil: none
}

// causeText is a cause of which nothing but the text is known.
type causeText string

func (c causeText) Error() string { return string(c) }

// receivedFromPeer is net/http's cause of an error that a client's peer has sent.
const receivedFromPeer = causeText("received from peer")

// resetOf returns err in net/http's form if it is an *h2.StreamError of stream id, else err. net/http's server does not say
// that the client has sent it.
func resetOf(of side, id uint32, err error) error {
	se, ok := err.(*h2.StreamError)
	if !ok {
		return err
	}
	e := &resetError{id: id, err: se}
	switch {
	case se.Reason != "":
		e.cause = causeText(se.Reason)
	case se.Fault == h2.Told && of == client:
		e.cause = receivedFromPeer
	}
	return e
}

// side is one end of a connection.
type side uint8

const (
	client side = iota
	server
)

// Error is net/http's text.
func (e *resetError) Error() string {
	code := e.err.Code.String()
	if e.err.Code > h2.HTTP11Required {
		code = fmt.Sprintf("unknown error code %#x", uint32(e.err.Code))
	}
	s := fmt.Sprintf("stream error: stream ID %d; %s", e.id, code)
	if e.cause != nil {
		s += "; " + e.cause.Error()
	}
	return s
}

// Unwrap returns the *h2.StreamError.
func (e *resetError) Unwrap() error { return e.err }

// As sets target if it is a struct with the fields of x/net/http2's StreamError, as net/http's error does.
func (e *resetError) As(target any) bool {
	dst := reflect.ValueOf(target).Elem()
	src := reflect.ValueOf(struct {
		StreamID uint32
		Code     h2.Code
		Cause    error
	}{e.id, e.err.Code, e.cause})
	if dst.Kind() != reflect.Struct || dst.NumField() != src.NumField() {
		return false
	}
	for i := range src.NumField() {
		s, d := src.Type().Field(i), dst.Type().Field(i)
		if s.Name != d.Name || !s.Type.ConvertibleTo(d.Type) || !dst.Field(i).CanSet() {
			return false
		}
	}
	for i := range src.NumField() {
		if v := src.Field(i); v.Kind() != reflect.Interface || !v.IsNil() {
			dst.Field(i).Set(v.Convert(dst.Field(i).Type()))
		}
	}
	return true
}
