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

// Reserved reports whether key belongs to gRPC or HTTP/2 and is therefore excluded from metadata in both
// directions. The key must be in lower case.
func Reserved(key string) bool {
	if key == "" || key[0] == ':' {
		return true
	}
	switch key {
	case "content-type", "user-agent", "te", "host",
		"connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade":
		return true
	}
	if !strings.HasPrefix(key, "grpc-") {
		return false
	}
	switch key {
	case "grpc-message-type", "grpc-encoding", "grpc-accept-encoding", "grpc-message",
		"grpc-status", "grpc-timeout":
		return true
	}
	return false
}

// ReceivedAsMetadata reports whether a field received under key is passed to the application. Some reserved
// keys are: grpc-go passes :authority, content-type, grpc-accept-encoding and user-agent, and interceptors
// rely on it.
func ReceivedAsMetadata(key string) bool {
	switch key {
	case ":authority", "content-type", "grpc-accept-encoding", "user-agent":
		return true
	}
	return !Reserved(key)
}

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
