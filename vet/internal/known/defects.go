package main

// A defect was fixed between two versions of a module.
type defect struct {
	module, before, after string
	packages              []string // to analyse, as patterns
	files                 []string // in which the defect is
	fix                   string   // the change that fixed it
	expect                expectation
}

// An expectation is what the run shows of a defect.
type expectation uint8

const (
	reported   expectation = iota // before the fix
	missed                        // the page of evidence says why
	uncompiled                    // one of the versions does not compile with what is there of its imports
)

// defects are uses of pooled memory after its release that users met.
func defects() []defect {
	return []defect{
		{module: "github.com/thanos-io/thanos", before: "v0.23.1", after: "v0.24.0", packages: []string{"./pkg/pool"}, files: []string{"pkg/pool/pool.go"},
			fix: "thanos-io/thanos#4792: a slice's capacity is read after Put"},
		{module: "github.com/go-resty/resty/v2", before: "v2.6.0", after: "v2.7.0", packages: []string{"."}, files: []string{"request.go"},
			fix: "go-resty/resty#421: the bytes of a buffer that a deferred call puts back are returned"},
		{module: "github.com/danielgtaylor/huma/v2", before: "v2.22.0", after: "v2.22.1", packages: []string{"."}, files: []string{"huma.go"},
			fix: "danielgtaylor/huma#542: a request's body is used after its buffer was put back"},
		{module: "gopkg.in/src-d/go-git.v4", before: "v4.11.0", after: "v4.12.0", packages: []string{"./plumbing/format/packfile"}, files: []string{"plumbing/format/packfile/diff_delta.go"},
			fix: "src-d/go-git#1159: the bytes of a buffer that a deferred call puts back are returned"},
		{module: "github.com/containerd/go-runc", before: "v0.0.0-20190911050354-e029b79d8cda", after: "v0.0.0-20191206163734-a5c2862aed5e", packages: []string{"."}, files: []string{"runc.go"},
			fix: "containerd/go-runc#57: the bytes of a buffer that a deferred call puts back are returned"},
		{module: "github.com/projectdiscovery/utils", before: "v0.7.1", after: "v0.7.3", packages: []string{"./http", "./sync/sizedpool"}, files: []string{"http/respChain.go"},
			fix: "projectdiscovery/utils#709: the bytes of a buffer that a deferred call puts back are returned"},
		{module: "github.com/ohler55/ojg", before: "v1.14.2", after: "v1.14.3", packages: []string{"./oj"}, files: []string{"oj/oj.go"},
			fix: "ohler55/ojg#90: a field of an encoder that a deferred call puts back is returned"},
		{module: "github.com/apache/iceberg-go", before: "v0.5.0", after: "v0.6.0", packages: []string{"./table"}, files: []string{"table/arrow_utils.go"},
			fix: "apache/iceberg-go#956: an Arrow array is released, and again by a deferred call"},
		{module: "github.com/gofiber/fiber/v2", before: "v2.36.0", after: "v2.37.0", packages: []string{"."}, files: []string{"client.go"},
			fix: "gofiber/fiber#2037: a client's agent is used after the method that gives it back"},
		{module: "github.com/darkweak/storages/core", before: "v0.0.18", after: "v0.0.19", packages: []string{"."}, files: []string{"core.go"},
			fix: "darkweak/storages#41: a response that reads from a buffer is returned, and a deferred call puts the buffer back"},
		{module: "github.com/lucas-clemente/quic-go", before: "v0.15.5", after: "v0.15.7", packages: []string{"."}, files: []string{"server.go"},
			fix: "quic-go/quic-go#2524: a goroutine uses a packet that its caller's caller releases", expect: missed},
		{module: "github.com/go-resty/resty/v2", before: "v2.10.0", after: "v2.11.0", packages: []string{"."}, files: []string{"middleware.go"},
			fix: "go-resty/resty#739: a request's body is put back while net/http may still read it", expect: missed},
		{module: "github.com/go-kratos/kratos/v2", before: "v2.7.1", after: "v2.7.2", packages: []string{"./transport/http"}, files: []string{"transport/http/router.go"},
			fix: "go-kratos/kratos#3072: a handler's context is put back while the handler's goroutines may use it", expect: missed},
		{module: "github.com/apache/pulsar-client-go", before: "v0.15.0", after: "v0.16.0", packages: []string{"./pulsar/internal"}, files: []string{"pulsar/internal/connection.go"},
			fix: "apache/pulsar-client-go#1371: a buffer goes back to its pool while a connection writes it", expect: missed},
		{module: "github.com/maximhq/bifrost/core", before: "v1.2.0", after: "v1.3.0", packages: []string{"./providers/..."}, files: []string{"providers/anthropic.go", "providers/anthropic/anthropic.go"},
			fix: "maximhq/bifrost#449: the body of a response that a deferred call releases is returned", expect: uncompiled},
	}
}
