module github.com/tarn-go/tarn/interop

go 1.25.0

require (
	github.com/tarn-go/tarn v0.0.0
	github.com/tarn-go/tarn/rpc v0.0.0
	google.golang.org/grpc v1.84.0
	google.golang.org/grpc/examples v0.0.0-20260825154716-030ee8becb20
)

require (
	cloud.google.com/go/compute/metadata v0.9.0 // indirect
	github.com/cncf/xds/go v0.0.0-20260202195803-dba9d589def2 // indirect
	github.com/envoyproxy/protoc-gen-validate v1.3.3 // indirect
	golang.org/x/net v0.58.0 // indirect
	golang.org/x/oauth2 v0.36.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.41.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/tarn-go/tarn => ../

replace github.com/tarn-go/tarn/rpc => ../rpc
