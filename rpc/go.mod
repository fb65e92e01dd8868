module github.com/tarn-go/tarn/rpc

go 1.26.0

replace github.com/tarn-go/tarn => ..

require (
	github.com/tarn-go/tarn v0.0.0
	golang.org/x/net v0.47.0
	google.golang.org/grpc v1.73.1
	google.golang.org/protobuf v1.36.6
)

require (
	golang.org/x/sys v0.38.0 // indirect
	golang.org/x/text v0.31.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20250324211829-b45e905df463 // indirect
)
