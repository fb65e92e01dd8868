package rpc_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
)

// TestAttemptsArePaced: with many endpoints four attempts to connect begin, and four more each 2 ms while the network does
// not answer; with 16 endpoints all begin at once. Close does not wait for the turn of the others.
func TestAttemptsArePaced(t *testing.T) {
	for _, endpoints := range []int{16, 100} {
		t.Run(fmt.Sprint(endpoints), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var dials atomic.Int64
				state := func(n int) (s resolver.State) {
					for i := range n {
						s.Endpoints = append(s.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{{Addr: fmt.Sprint("member-", i)}}})
					}
					return s
				}
				r := manual.NewBuilderWithScheme("names")
				r.InitialState(state(endpoints))
				cc, err := rpc.NewClient("names:///fleet", rpc.WithResolvers(r), rpc.WithPool(tarntest.NewPool(t)),
					rpc.WithTransportCredentials(insecure.NewCredentials()), rpc.WithDefaultServiceConfig(evenly),
					rpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
						dials.Add(1)
						<-ctx.Done()
						return nil, ctx.Err()
					}))
				if err != nil {
					t.Fatal(err)
				}
				defer cc.Close()
				cc.Connect()
				synctest.Wait()
				if endpoints == 16 {
					if n := dials.Load(); n != 16 {
						t.Errorf("%d of 16 endpoints have been dialled at once", n)
					}
					return
				}
				// The first 16 may have begun before the client knew that there are more.
				first := dials.Load()
				if first < 4 || first > 20 {
					t.Errorf("%d attempts began together", first)
				}
				for i := range int64(5) {
					<-time.After(2 * time.Millisecond)
					synctest.Wait()
					if n := dials.Load(); n != first+4*(i+1) {
						t.Errorf("%d attempts after %d ms, want %d", n, 2*(i+1), first+4*(i+1))
					}
				}
				began := time.Now()
				cc.Close()
				if took := time.Since(began); took != 0 {
					t.Errorf("Close has waited %v", took)
				}
			})
		})
	}
}
