module github.com/tarn-go/tarn/interop/etcd

go 1.26.0

replace (
	github.com/tarn-go/tarn => ../..
	github.com/tarn-go/tarn/rpc => ../../rpc
)

require (
	github.com/grpc-ecosystem/grpc-gateway/v2 v2.26.3
	github.com/tarn-go/tarn v0.0.0
	github.com/tarn-go/tarn/rpc v0.0.0
	go.etcd.io/etcd/api/v3 v3.6.9
	go.etcd.io/etcd/client/v3 v3.6.9
	google.golang.org/grpc v1.84.0
)

require (
	github.com/coreos/go-semver v0.3.1 // indirect
	github.com/coreos/go-systemd/v22 v22.5.0 // indirect
	github.com/gogo/protobuf v1.3.2 // indirect
	github.com/golang/protobuf v1.5.4 // indirect
	go.etcd.io/etcd/client/pkg/v3 v3.6.9 // indirect
	go.uber.org/multierr v1.11.0 // indirect
	go.uber.org/zap v1.27.0 // indirect
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/api v0.0.0-20260706201446-f0a921348800 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
