module github.com/tarn-go/tarn/vet

go 1.26.0

require (
	github.com/golangci/plugin-module-register v0.1.2
	github.com/natefinch/atomic v1.0.1
	go.yaml.in/yaml/v3 v3.0.6
	golang.org/x/mod v0.42.0
	golang.org/x/sync v0.25.0
	golang.org/x/tools v0.52.0
)
