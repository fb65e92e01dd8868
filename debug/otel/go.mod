module github.com/tarn-go/tarn/debug/otel

go 1.26.0

replace github.com/tarn-go/tarn => ../..

require (
	github.com/tarn-go/tarn v0.0.0
	go.opentelemetry.io/otel v1.42.0
	go.opentelemetry.io/otel/metric v1.42.0
)

require github.com/cespare/xxhash/v2 v2.3.0 // indirect
