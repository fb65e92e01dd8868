package tarn

// failures are patterns of the suite's cases that fail, with the reason. The suite fails if one of them passes.
type failures map[string]string

const (
	cardinality  = "INTERNAL rather than UNIMPLEMENTED, as in grpc-go"
	trailersOnly = "the metadata of a response that is a trailer alone is in the trailer, as gRPC specifies; connect-go has it in the header as well"
)

var serverFailures = failures{
	"gRPC Unexpected Requests/**/server-stream/multiple-requests":     cardinality,
	"gRPC Unexpected Requests/**/server-stream/no-request":            cardinality,
	"gRPC Unexpected Requests/**/unary/multiple-requests":             cardinality,
	"gRPC Unexpected Requests/**/unary/no-request":                    cardinality,
	"gRPC-Web Unexpected Requests/**/server-stream/multiple-requests": cardinality,
	"gRPC-Web Unexpected Requests/**/server-stream/no-request":        cardinality,
	"gRPC-Web Unexpected Requests/**/unary/multiple-requests":         cardinality,
	"gRPC-Web Unexpected Requests/**/unary/no-request":                cardinality,
}

var clientFailures = failures{
	"gRPC Unexpected Responses/**/client-stream/multiple-responses":                      cardinality,
	"gRPC Unexpected Responses/**/client-stream/ok-but-no-response":                      cardinality,
	"gRPC Unexpected Responses/**/unary/multiple-responses":                              cardinality,
	"gRPC Unexpected Responses/**/unary/ok-but-no-response":                              cardinality,
	"gRPC-Web Unexpected Responses/**/trailers-in-body/client-stream/multiple-responses": cardinality,
	"gRPC-Web Unexpected Responses/**/trailers-in-body/client-stream/ok-but-no-response": cardinality,
	"gRPC-Web Unexpected Responses/**/trailers-in-body/unary/multiple-responses":         cardinality,
	"gRPC-Web Unexpected Responses/**/trailers-in-body/unary/ok-but-no-response":         cardinality,
	"gRPC-Web Unexpected Responses/**/trailers-only/client-stream/ok-but-no-response":    cardinality,
	"gRPC-Web Unexpected Responses/**/trailers-only/unary/ok-but-no-response":            cardinality,
	fromGRPC("Basic", "bidi-stream/half-duplex/no-responses"):                            trailersOnly,
	fromGRPC("Duplicate Metadata", "bidi-stream/half-duplex/error-with-no-responses"):    trailersOnly,
	fromGRPC("Errors", "bidi-stream/error-with-metadata"):                                trailersOnly,
	fromGRPC("Errors", "bidi-stream/half-duplex/error-with-no-responses"):                trailersOnly,
}

// fromGRPC is the pattern of a case of gRPC-Web with grpc-go's server.
func fromGRPC(suite, name string) string {
	return suite + "/HTTPVersion:2/Protocol:PROTOCOL_GRPC_WEB/**/(grpc server impl)/" + name
}
