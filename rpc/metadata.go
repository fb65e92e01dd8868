package rpc

import (
	"slices"
	"strings"

	"github.com/tarn-go/tarn/h2"
	"github.com/tarn-go/tarn/rpc/internal/header"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// checkMetadata returns INTERNAL, as grpc-go does, when md may not be sent.
func checkMetadata(md metadata.MD) error {
	for k, vs := range md {
		if err := checkValues(strings.ToLower(k), vs); err != nil {
			return err
		}
	}
	return nil
}

// checkValues is checkMetadata for one key, which is in lower case.
func checkValues(k string, vs []string) error {
	if k != "" && k[0] == ':' {
		return nil // left out when sending
	}
	if err := header.CheckKey(k); err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	for _, v := range vs {
		if err := header.CheckValue(k, v); err != nil {
			return status.Error(codes.Internal, err.Error())
		}
	}
	return nil
}

// appendMetadata appends the fields of md that are the application's to send, sorted by key.
func appendMetadata(fs []h2.Field, md metadata.MD) []h2.Field {
	fs = slices.Grow(fs, len(md)) // there is seldom more than one value of a key
	start := len(fs)
	for k, vs := range md {
		fs = appendValues(fs, strings.ToLower(k), vs)
	}
	sortFields(fs[start:])
	return fs
}

// appendChecked is checkMetadata and appendMetadata with one iteration of md, which a client does for each call.
func appendChecked(fs []h2.Field, md metadata.MD) ([]h2.Field, error) {
	fs = slices.Grow(fs, len(md))
	start := len(fs)
	for k, vs := range md {
		k = strings.ToLower(k)
		if err := checkValues(k, vs); err != nil {
			return fs, err
		}
		fs = appendValues(fs, k, vs)
	}
	sortFields(fs[start:])
	return fs, nil
}

// appendValues appends the values of one key, which is in lower case.
func appendValues(fs []h2.Field, k string, vs []string) []h2.Field {
	if header.Reserved(k) {
		return fs
	}
	for _, v := range vs {
		fs = append(fs, h2.Field{Name: k, Value: header.EncodeValue(k, v)})
	}
	return fs
}

// sortFields sorts fs by name; fields with the same name keep their order. Ranging over a map yields another order
// each time, and the peer's header decoder recognises only a list that comes in the same one.
func sortFields(fs []h2.Field) {
	if len(fs) > 1 {
		slices.SortStableFunc(fs, func(a, b h2.Field) int { return strings.Compare(a.Name, b.Name) })
	}
}
