package header

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
)

// ErrMetadata is wrapped by the errors for metadata that may not be sent, or that a peer encoded wrongly.
var ErrMetadata = errors.New("rpc: bad metadata")

// binSuffix marks keys whose values are bytes, sent in base64.
const binSuffix = "-bin"

// IsBin reports whether values of key are binary.
func IsBin(key string) bool { return strings.HasSuffix(key, binSuffix) }

// uses says what a field may be in metadata.
type uses uint8

const (
	toSend  uses = 1 << iota // a program may send it
	byGRPC                   // received over gRPC, it is passed to the program
	byOther                  // received over gRPC-Web or Connect, or through net/http, it is passed to the program
	anyUse  = toSend | byGRPC | byOther
)

// usesOf is the table of the fields that belong to HTTP or to a protocol. A program's metadata never sets them: they would contradict
// the message that they describe, or reach the next connection only. What is received is passed to the program as in grpc-go, whose
// interceptors rely on some of it. The key must be in lower case.
func usesOf(key string) uses {
	if key == "" || key[0] == ':' && key != ":authority" {
		return 0
	}
	switch key {
	case "connection", "host", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade",
		"grpc-message-type", "grpc-encoding", "grpc-message", "grpc-status", "grpc-timeout":
		return 0
	case "accept-encoding", "content-encoding", "content-length", "expect", "http2-settings", "trailer",
		"connect-accept-encoding", "connect-content-encoding", "connect-protocol-version", "connect-timeout-ms":
		return byGRPC
	case ":authority", "content-type", "date", "grpc-accept-encoding", "user-agent":
		return byGRPC | byOther
	case "accept", "x-grpc-web":
		return toSend | byGRPC
	}
	if strings.HasPrefix(key, "connect-") {
		return toSend | byGRPC
	}
	return anyUse
}

// Reserved reports whether a program's metadata of key, which is in lower case, is not sent, in any protocol.
func Reserved(key string) bool { return usesOf(key)&toSend == 0 }

// ReceivedAsMetadata reports whether a field received over gRPC under key, which is in lower case, is passed to the program.
func ReceivedAsMetadata(key string) bool { return usesOf(key)&byGRPC != 0 }

// ReceivedByWeb is ReceivedAsMetadata for gRPC-Web, Connect, and gRPC through net/http.
func ReceivedByWeb(key string) bool { return usesOf(key)&byOther != 0 }

// CheckKey returns an error when key may not be sent as metadata: a character outside 0-9 a-z _ - . (the
// caller has converted it to lower case).
func CheckKey(key string) error {
	if key == "" {
		return fmt.Errorf("%w: caller sent an empty key", ErrMetadata)
	}
	for i := range len(key) {
		c := key[i]
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_' {
			continue
		}
		return fmt.Errorf("%w: caller's key %q contains an illegal character", ErrMetadata, key)
	}
	return nil
}

// CheckValue returns an error when value may not be sent under key: only
// printable ASCII unless the key is binary.
func CheckValue(key, value string) error {
	if IsBin(key) {
		return nil
	}
	for i := range len(value) {
		if c := value[i]; c < ' ' || c > '~' {
			return fmt.Errorf("%w: caller's value of %q contains a byte that is not printable ASCII", ErrMetadata, key)
		}
	}
	return nil
}

// EncodeValue returns the form in which value of key is sent: base64 without padding for binary keys,
// otherwise itself.
func EncodeValue(key, value string) string {
	if !IsBin(key) {
		return value
	}
	return base64.RawStdEncoding.EncodeToString([]byte(value))
}

// AppendValues appends to dst the values received under key in one field. A binary field may hold several,
// joined by commas, padded or not; any other field is one value. It returns dst unchanged with an error that
// wraps ErrMetadata when a binary value is not base64.
func AppendValues(dst []string, key, field string) ([]string, error) {
	if !IsBin(key) {
		return append(dst, field), nil
	}
	out := dst
	for {
		part, rest, more := strings.Cut(field, ",")
		v, err := decodeBin(strings.Trim(part, " \t"))
		if err != nil {
			return dst, fmt.Errorf("%w: peer sent %q that is not base64: %v", ErrMetadata, key, err)
		}
		out = append(out, v)
		if !more {
			return out, nil
		}
		field = rest
	}
}

// decodeBin reads base64 with or without its padding.
func decodeBin(s string) (string, error) {
	s = strings.TrimRight(s, "=")
	b, err := base64.RawStdEncoding.DecodeString(s)
	return string(b), err
}
