package migrate

import "fmt"

// forward has what to do about names of grpc-go that package rpc does not have.
var forward = map[string]string{
	"Dial":             dial,
	"DialContext":      dial,
	"WithInsecure":     "use rpc.WithTransportCredentials(insecure.NewCredentials())",
	"WithBlock":        "call Connect and WaitForStateChange",
	"WithTimeout":      "wait with a context in WaitForStateChange",
	"WithDialer":       "use rpc.WithContextDialer",
	"WithCodec":        "use the call option grpc.ForceCodecV2",
	"CustomCodec":      "use rpc.ForceServerCodecV2",
	"WithBalancerName": "name the balancer in rpc.WithDefaultServiceConfig",
	"WithCompressor":   "use the call option grpc.UseCompressor",
	"WithDecompressor": "import the compressor's package: it registers itself",
	"RPCCompressor":    "import the compressor's package: it registers itself",
	"RPCDecompressor":  "import the compressor's package: it registers itself",
}

const dial = "use rpc.NewClient, which resolves a target without a scheme by dns (Dial passes it through: \"passthrough:///\" in front of it does so), and connects with the first call"

// backward has what to do about names of package rpc that grpc-go does not have.
var backward = map[string]string{
	"DialOptions":           "give the library its own target and options",
	"WithPool":              "remove it",
	"Pool":                  "remove it",
	"WithBufferPool":        "use experimental.WithBufferPool",
	"BufferPool":            "use experimental.BufferPool",
	"LendRequests":          "remove it: grpc-go copies",
	"WithHedgingPolicy":     "remove it: grpc-go has no hedging",
	"WithRetryPolicy":       "use grpc.WithDefaultServiceConfig",
	"WithChannelz":          "remove it: grpc-go lists every client",
	"Channelz":              "remove it: grpc-go lists every server",
	"WithBinaryLog":         "set GRPC_BINARY_LOG_FILTER, and binarylog.SetSink",
	"BinaryLog":             "set GRPC_BINARY_LOG_FILTER, and binarylog.SetSink",
	"NewCallLog":            "set GRPC_BINARY_LOG_FILTER, and binarylog.SetSink",
	"HealthServer":          "call the health server's Shutdown before the server's Stop and GracefulStop",
	"PanicHandler":          "recover in an interceptor: a panic ends a process of grpc-go",
	"WithAcceptCompressors": "remove it: grpc-go names all that are registered",
	"AcceptCompressors":     "remove it: grpc-go names all that are registered",
	"WithProtocol":          "use the client of connect-go or of gRPC-Web's proxy",
}

func advice(name, other, what string) string {
	if what != "" {
		what = ": " + what
	}
	return fmt.Sprintf("%s has no counterpart in package %s%s", name, other, what)
}
