package web

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/tarn-go/tarn/h2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// ConnectVersion is the only version of the Connect protocol.
const ConnectVersion = "1"

// Error is a status in Connect's JSON form.
type Error struct {
	Code    string   `json:"code"`
	Message string   `json:"message,omitempty"`
	Details []Detail `json:"details,omitempty"`
}

// Detail is one of an Error's details.
type Detail struct {
	Type  string `json:"type"`
	Value string `json:"value"` // base64 without padding
}

// NewError is the form of st; nil for OK.
func NewError(st *status.Status) *Error {
	if st.Code() == codes.OK {
		return nil
	}
	e := &Error{Code: Code(st.Code()), Message: st.Message()}
	for _, d := range st.Proto().GetDetails() {
		name := d.GetTypeUrl()
		e.Details = append(e.Details, Detail{Type: name[strings.LastIndexByte(name, '/')+1:],
			Value: base64.RawStdEncoding.EncodeToString(d.GetValue())})
	}
	return e
}

// Status converts the error to a status. code is used for an error without a code, or with an unknown one.
func (e *Error) Status(code codes.Code) *status.Status {
	if i := slices.IndexFunc(codeNames[:], func(c codeOf) bool { return c.name != "" && c.name == e.Code }); i >= 0 {
		code = codes.Code(i)
	}
	p := status.New(code, e.Message).Proto()
	for _, d := range e.Details {
		value, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(d.Value, "="))
		if err != nil {
			continue // as connect-go does: the detail is not valid base64
		}
		p.Details = append(p.Details, &anypb.Any{TypeUrl: "type.googleapis.com/" + d.Type, Value: value})
	}
	return status.FromProto(p)
}

// ErrorJSON is the body of a response of a unary call that has failed with st.
func ErrorJSON(st *status.Status) []byte {
	text, err := json.Marshal(NewError(st))
	if err != nil {
		return []byte(`{"code":"internal"}`) // impossible: all fields are strings
	}
	return text
}

// End is the content of the envelope that ends a stream.
type End struct {
	Error    *Error              `json:"error,omitempty"`
	Metadata map[string][]string `json:"metadata,omitempty"`
}

// EndStream is the envelope that ends a stream with st, nil being OK, and the fields of its trailer.
func EndStream(st *status.Status, trailer []h2.Field) []byte {
	end := End{Error: NewError(st)}
	for _, f := range trailer {
		if end.Metadata == nil {
			end.Metadata = map[string][]string{}
		}
		end.Metadata[f.Name] = append(end.Metadata[f.Name], f.Value)
	}
	text, err := json.Marshal(end)
	if err != nil {
		text = []byte(`{"error":{"code":"internal"}}`) // impossible: all fields are strings
	}
	return frame(EndStreamFlag, text)
}

// codeOf is Connect's name of a code.
type codeOf struct {
	name       string
	httpStatus int
}

// codeNames are the names and HTTP statuses of codes (https://connectrpc.com/docs/protocol#error-codes).
var codeNames = [...]codeOf{
	codes.Canceled:           {"canceled", 499},
	codes.Unknown:            {"unknown", http.StatusInternalServerError},
	codes.InvalidArgument:    {"invalid_argument", http.StatusBadRequest},
	codes.DeadlineExceeded:   {"deadline_exceeded", http.StatusGatewayTimeout},
	codes.NotFound:           {"not_found", http.StatusNotFound},
	codes.AlreadyExists:      {"already_exists", http.StatusConflict},
	codes.PermissionDenied:   {"permission_denied", http.StatusForbidden},
	codes.ResourceExhausted:  {"resource_exhausted", http.StatusTooManyRequests},
	codes.FailedPrecondition: {"failed_precondition", http.StatusBadRequest},
	codes.Aborted:            {"aborted", http.StatusConflict},
	codes.OutOfRange:         {"out_of_range", http.StatusBadRequest},
	codes.Unimplemented:      {"unimplemented", http.StatusNotImplemented},
	codes.Internal:           {"internal", http.StatusInternalServerError},
	codes.Unavailable:        {"unavailable", http.StatusServiceUnavailable},
	codes.DataLoss:           {"data_loss", http.StatusInternalServerError},
	codes.Unauthenticated:    {"unauthenticated", http.StatusUnauthorized},
}

// Code is Connect's name of a code.
func Code(c codes.Code) string {
	if c < codes.Code(len(codeNames)) && codeNames[c].name != "" {
		return codeNames[c].name
	}
	return "unknown"
}

// HTTPStatus is the status of a response of a unary call that has failed with a code.
func HTTPStatus(c codes.Code) int {
	if c < codes.Code(len(codeNames)) && codeNames[c].httpStatus != 0 {
		return codeNames[c].httpStatus
	}
	return http.StatusInternalServerError
}

// CodeOf is the code of a response that is not an error of the protocol
// (https://connectrpc.com/docs/protocol#http-to-error-code).
func CodeOf(httpStatus int) codes.Code {
	switch httpStatus {
	case http.StatusBadRequest:
		return codes.Internal
	case http.StatusUnauthorized:
		return codes.Unauthenticated
	case http.StatusForbidden:
		return codes.PermissionDenied
	case http.StatusNotFound:
		return codes.Unimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return codes.Unavailable
	}
	return codes.Unknown
}
