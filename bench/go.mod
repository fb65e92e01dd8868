module github.com/tarn-go/tarn/bench

go 1.26.0

require (
	connectrpc.com/connect v1.20.0
	github.com/apache/arrow-go/v18 v18.5.0
	github.com/bytedance/gopkg v0.1.4
	github.com/libp2p/go-buffer-pool v0.1.0
	github.com/tarn-go/tarn v0.0.0
	github.com/tarn-go/tarn/rpc v0.0.0
	github.com/valyala/bytebufferpool v1.0.0
	golang.org/x/net v0.57.0
	google.golang.org/grpc v1.84.0
	google.golang.org/protobuf v1.36.11
)

require (
	golang.org/x/crypto v0.54.0 // indirect
	golang.org/x/exp v0.0.0-20250718183923-645b1fa84792 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
)

replace github.com/tarn-go/tarn => ../

replace github.com/tarn-go/tarn/rpc => ../rpc
