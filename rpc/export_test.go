package rpc

import (
	"context"

	"google.golang.org/grpc/balancer"
)

// Picker is the function by which a call finds its connection.
func Picker(cc *ClientConn) func(balancer.PickInfo) (any, error) {
	ci := &callInfo{}
	return func(info balancer.PickInfo) (any, error) {
		p, err := cc.pick(context.Background(), info.FullMethodName, ci)
		return p.conn, err
	}
}
