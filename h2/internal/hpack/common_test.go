package hpack

import "math"

var testRequest = NewBlock(Field{Name: ":method", Value: "POST"}, Field{Name: ":scheme", Value: "http"},
	Field{Name: ":path", Value: "/test.Service/Method"}, Field{Name: ":authority", Value: "test"},
	Field{Name: "content-type", Value: "application/grpc"}, Field{Name: "te", Value: "trailers"})

// limits are those of lists of n bytes.
func limits(n int) Limits { return Limits{List: n, Fields: math.MaxInt} }
