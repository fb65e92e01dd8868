package main

// A class is what reading a report's code showed.
type class uint8

const (
	unread      class = iota
	realDefect        // the code can use memory that another goroutine has
	falseReport       // it cannot
)

// A module is a large one, and the classes of the reports in it by file and line.
type module struct {
	path, version string
	classes       map[string]class
}

// surveyed are large modules that use pools, at their newest versions of 2026-11-28 and 29.
func surveyed() []module {
	return []module{
		{path: "github.com/apache/arrow-go/v18", version: "v18.8.0"},
		{path: "github.com/apache/iceberg-go", version: "v0.7.0"},
		{path: "github.com/blevesearch/bleve/v2", version: "v2.6.3"},
		{path: "github.com/bytedance/sonic", version: "v1.15.5"},
		{path: "github.com/cloudwego/hertz", version: "v0.10.4", classes: map[string]class{
			"pkg/protocol/http1/resp/response.go:172": realDefect, // Close puts the stream into its pool, and unlocks its mutex afterwards
		}},
		{path: "github.com/cockroachdb/pebble/v2", version: "v2.1.7"},
		{path: "github.com/dgraph-io/badger/v4", version: "v4.9.6"},
		{path: "github.com/ethereum/go-ethereum", version: "v1.17.10"},
		{path: "github.com/go-git/go-git/v5", version: "v5.19.3"},
		{path: "github.com/gofiber/fiber/v3", version: "v3.1.0"},
		{path: "github.com/IBM/sarama", version: "v1.61.1"},
		{path: "github.com/jackc/pgx/v5", version: "v5.13.0"},
		{path: "github.com/klauspost/compress", version: "v1.20.4"},
		{path: "github.com/libp2p/go-libp2p", version: "v0.51.0"},
		{path: "github.com/minio/minio-go/v7", version: "v7.4.1", classes: map[string]class{
			"utils.go:672": falseReport, // of two bools only one is ever true
		}},
		{path: "github.com/nats-io/nats-server/v2", version: "v2.15.3"},
		{path: "github.com/osrg/gobgp/v4", version: "v4.8.0"},
		{path: "github.com/parquet-go/parquet-go", version: "v0.32.0"},
		{path: "github.com/quic-go/quic-go", version: "v0.65.0"},
		{path: "github.com/redis/go-redis/v9", version: "v9.23.0"},
		{path: "github.com/redis/rueidis", version: "v1.0.79"},
		{path: "github.com/rs/zerolog", version: "v1.35.1"},
		{path: "github.com/segmentio/kafka-go", version: "v0.4.51"},
		{path: "github.com/syncthing/syncthing", version: "v1.30.0", classes: map[string]class{
			"cmd/stdiscosrv/apisrv.go:246": realDefect, // a deferred Put runs before the deferred Close of the gzip.Writer
		}},
		{path: "github.com/twmb/franz-go", version: "v1.22.3"},
		{path: "github.com/valyala/fasthttp", version: "v1.78.0"},
		{path: "go.etcd.io/etcd/server/v3", version: "v3.7.3"},
		{path: "go.mongodb.org/mongo-driver/v2", version: "v2.10.0"},
		{path: "go.uber.org/zap", version: "v1.28.0"},
		{path: "google.golang.org/grpc", version: "v1.85.0"},
	}
}
