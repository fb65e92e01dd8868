package header

import "strings"

const baseContentType = "application/grpc"

// ContentType gives the content-type for a content subtype; the empty subtype
// is plain "application/grpc".
func ContentType(subtype string) string {
	switch subtype {
	case "":
		return baseContentType
	case "proto":
		return baseContentType + "+proto"
	}
	return baseContentType + "+" + subtype
}

// Subtype parses a content-type. ok reports whether it is one of gRPC's; the subtype is in lower case, and
// empty when absent. Both "+" and ";" end the base type; parameters after the subtype are ignored.
func Subtype(contentType string) (subtype string, ok bool) {
	if len(contentType) < len(baseContentType) || !strings.EqualFold(contentType[:len(baseContentType)], baseContentType) {
		return "", false
	}
	rest := contentType[len(baseContentType):]
	if rest == "" {
		return "", true
	}
	switch rest[0] {
	case '+':
		sub, _, _ := strings.Cut(rest[1:], ";")
		return strings.ToLower(strings.TrimSpace(sub)), true
	case ';':
		return "", true
	}
	return "", false
}

// SplitMethod splits "/package.Service/Method" at its last slash. ok is false for a path without a leading
// slash or without a second one.
func SplitMethod(path string) (service, method string, ok bool) {
	if path == "" || path[0] != '/' {
		return "", "", false
	}
	i := strings.LastIndexByte(path[1:], '/')
	if i < 0 {
		return "", "", false
	}
	return path[1 : i+1], path[i+2:], true
}
