package fetch

import (
	"errors"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// Header is the part of a command's flags that adds headers to a request.
type Header struct{ http.Header }

// Flags adds -header and -token to a command's flags. Without -token the environment's TARN_TOKEN is
// used, which other users of the machine do not see in a list of processes.
func (h *Header) Flags(flags *pflag.FlagSet) {
	h.Header = http.Header{}
	if token := os.Getenv("TARN_TOKEN"); token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	flags.Func("header", "a header `Name: value` to send; may be repeated", func(s string) error {
		name, value, ok := strings.Cut(s, ":")
		if !ok || strings.TrimSpace(name) == "" {
			return errors.New("want Name: value")
		}
		h.Add(strings.TrimSpace(name), strings.TrimSpace(value))
		return nil
	})
	flags.Func("token", "send `T` as a bearer token; TARN_TOKEN in the environment does the same", func(s string) error {
		h.Set("Authorization", "Bearer "+s)
		return nil
	})
}
