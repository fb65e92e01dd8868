module github.com/tarn-go/tarn/examples

go 1.26.0

replace (
	github.com/tarn-go/tarn => ..
	github.com/tarn-go/tarn/rpc => ../rpc
	github.com/tarn-go/tarn/smb => ../smb
)

require (
	github.com/tarn-go/tarn v0.0.0
	github.com/tarn-go/tarn/rpc v0.0.0
	github.com/tarn-go/tarn/smb v0.0.0
	google.golang.org/grpc v1.83.0
)

require (
	golang.org/x/crypto v0.51.0 // indirect
	golang.org/x/net v0.55.0 // indirect
	golang.org/x/sys v0.45.0 // indirect
	golang.org/x/text v0.37.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260526163538-3dc84a4a5aaa // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
