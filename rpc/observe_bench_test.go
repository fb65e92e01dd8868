package rpc

import "testing"

// BenchmarkObserve measures the cost of ObserveCalls for a unary call, on one side.
func BenchmarkObserve(b *testing.B) {
	o := new(observer)
	b.ReportAllocs()
	for range b.N {
		c := o.begin("/service/Method", connecting)
		c.set(opening)
		c.set(receiving)
		c.end(nil, nil)
	}
}
