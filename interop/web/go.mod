module github.com/tarn-go/tarn/interop/web

go 1.26.0

require (
	connectrpc.com/connect v1.20.0
	github.com/tarn-go/tarn v0.0.0
	github.com/tarn-go/tarn/rpc v0.0.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800
	google.golang.org/grpc v1.84.0
	google.golang.org/protobuf v1.36.11
)

require (
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.40.0 // indirect
)

replace (
	github.com/tarn-go/tarn => ../..
	github.com/tarn-go/tarn/rpc => ../../rpc
)
