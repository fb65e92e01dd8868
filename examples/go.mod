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
	google.golang.org/grpc v1.85.0
)

require (
	golang.org/x/crypto v0.59.0 // indirect
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/sys v0.50.0 // indirect
	golang.org/x/text v0.44.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261005182115-fad411399dd8 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)
