package rpc

import (
	"slices"
	"strings"

	"google.golang.org/grpc/encoding"
)

// usualCompressors are asked for in grpc-go's registry, which cannot be listed.
var usualCompressors = [...]string{"gzip", "zstd", "snappy", "s2", "deflate", "lz4", "br"}

// acceptEncoding is the value of grpc-accept-encoding: those of the usual and
// the named compressors that are registered.
func acceptEncoding(named []string) string {
	var have []string
	for _, n := range append(usualCompressors[:len(usualCompressors):len(usualCompressors)], named...) {
		if encoding.GetCompressor(n) != nil && !slices.Contains(have, n) {
			have = append(have, n)
		}
	}
	return strings.Join(have, ",")
}

// identity reports whether an encoding name means no compression.
func identity(name string) bool { return name == "" || name == encoding.Identity }
