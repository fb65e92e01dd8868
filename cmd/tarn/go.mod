module github.com/tarn-go/tarn/cmd/tarn

go 1.26.0

replace (
	github.com/tarn-go/tarn => ../..
	github.com/tarn-go/tarn/rpc => ../../rpc
	github.com/tarn-go/tarn/smb => ../../smb
	github.com/tarn-go/tarn/smb/krb5 => ../../smb/krb5
)

require (
	github.com/natefinch/atomic v1.0.1
	github.com/schollz/progressbar/v3 v3.19.1
	github.com/spf13/cobra v1.10.2
	github.com/spf13/pflag v1.0.9
	github.com/tarn-go/tarn v0.0.0
	github.com/tarn-go/tarn/rpc v0.0.0
	github.com/tarn-go/tarn/smb v0.0.0
	github.com/tarn-go/tarn/smb/krb5 v0.0.0
	golang.org/x/crypto v0.54.0
	golang.org/x/net v0.57.0
	golang.org/x/sys v0.47.0
	golang.org/x/term v0.45.0
	golang.org/x/tools v0.47.0
	google.golang.org/grpc v1.84.0
)

require (
	github.com/hashicorp/go-uuid v1.0.3 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/jcmturner/aescts/v2 v2.0.0 // indirect
	github.com/jcmturner/dnsutils/v2 v2.0.0 // indirect
	github.com/jcmturner/gofork v1.7.6 // indirect
	github.com/jcmturner/gokrb5/v8 v8.4.4 // indirect
	github.com/jcmturner/rpc/v2 v2.0.3 // indirect
	github.com/mitchellh/colorstring v0.0.0-20190213212951-d06e56a500db // indirect
	github.com/rivo/uniseg v0.4.7 // indirect
	golang.org/x/mod v0.37.0 // indirect
	golang.org/x/sync v0.22.0 // indirect
	golang.org/x/text v0.40.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
	google.golang.org/protobuf v1.36.11 // indirect
)
