package rpc

import (
	"context"

	"github.com/tarn-go/tarn/rpc/internal/balance"
	"google.golang.org/grpc/balancer"
)

// Picker is the function by which a call finds its connection.
func Picker(cc *ClientConn) func(balancer.PickInfo) (any, error) {
	return func(info balancer.PickInfo) (any, error) {
		p, err := cc.channel.Pick(context.Background(), info.FullMethodName, balance.FailFast)
		return p.Conn, err
	}
}

// ThriftyStreams is how many streaming calls of a connection may keep up to 4,095 bytes of window each.
const ThriftyStreams = thriftyStreams

// AddStreams makes the connections of cc count n streaming calls more, and returns how many they count together.
func AddStreams(cc *ClientConn, n int32) (sum int32) {
	cc.conns.mu.Lock()
	defer cc.conns.mu.Unlock()
	for c := range cc.conns.all {
		sum += c.streams.Add(n)
	}
	return sum
}

// Producers is how many producers sc keeps.
func Producers(sc balancer.SubConn) int {
	return sc.(*balance.SubConn).Producers()
}

// LoggedBytes is what a binary log takes of a message.
var LoggedBytes = loggedBytes
