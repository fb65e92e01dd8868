module github.com/tarn-go/tarn/bench

go 1.26.0

require (
	connectrpc.com/connect v1.20.0
	github.com/apache/arrow-go/v18 v18.5.0
	github.com/bytedance/gopkg v0.1.4
	github.com/libp2p/go-buffer-pool v0.1.0
	github.com/planetscale/vtprotobuf v0.6.1-0.20240319094008-0393e58bdf10
	github.com/tarn-go/tarn v0.0.0
	github.com/tarn-go/tarn/rpc v0.0.0
	github.com/tarn-go/tarn/rpc/hyper v0.0.0
	github.com/valyala/bytebufferpool v1.0.0
	golang.org/x/net v0.62.0
	golang.org/x/perf v0.0.0-20250813145418-2f7363a06fe1
	google.golang.org/grpc v1.84.0
	google.golang.org/protobuf v1.36.11
)

require (
	buf.build/go/hyperpb v0.1.3 // indirect
	github.com/aclements/go-moremath v0.0.0-20210112150236-f10218a38794 // indirect
	github.com/davecgh/go-spew v1.1.2-0.20180830191138-d8f796af33cc // indirect
	github.com/pmezard/go-difflib v1.0.1-0.20181226105442-5d4384ee4fb2 // indirect
	github.com/stretchr/testify v1.11.1 // indirect
	github.com/timandy/routine v1.1.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
	golang.org/x/text v0.43.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260706201446-f0a921348800 // indirect
	gopkg.in/yaml.v3 v3.0.1 // indirect
)

replace github.com/tarn-go/tarn => ../

replace github.com/tarn-go/tarn/rpc => ../rpc

replace github.com/tarn-go/tarn/rpc/hyper => ../rpc/hyper
