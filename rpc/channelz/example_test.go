package channelz_test

import (
	"fmt"

	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/rpc/channelz"
)

// The server shows itself, and every client that is made with rpc.WithChannelz(&listed), to tools that read
// channelz.
func Example() {
	var listed rpc.ChannelzRegistry
	s := rpc.NewServer(rpc.Channelz(&listed))
	defer s.Stop()
	channelz.Register(s, &listed)

	for name := range s.GetServiceInfo() {
		fmt.Println(name)
	}
	// Output: grpc.channelz.v1.Channelz
}
