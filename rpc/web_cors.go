package rpc

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CORSConfig says which pages of other origins may call a server from a browser (Fetch standard, "CORS
// protocol"). The zero value allows none.
type CORSConfig struct {
	// Origins whose pages may call, such as "https://app.example"; "*" allows every page.
	Origins []string
	// Headers are request fields that pages may send besides those of the protocols: metadata.
	Headers []string
	// Expose are response fields that pages may read besides those of the protocols.
	Expose []string
	// MaxAge is how long a browser may cache the answer; 0 leaves it to the browser.
	MaxAge time.Duration
}

// CORS lets pages of other origins make calls to [Server.ServeHTTP]. Credentials such as cookies are not
// allowed. Without it the browser's same-origin policy applies.
func CORS(config CORSConfig) ServerOption {
	return serverOption(func(o *serverOptions) { o.cors = &cors{config} })
}

// cors adds the fields of CORS; a nil *cors adds nothing.
type cors struct{ CORSConfig }

// Fields of the three protocols that are not on the Fetch standard's safe lists.
var (
	corsRequestHeaders = []string{"Content-Type", "Connect-Protocol-Version", "Connect-Timeout-Ms", "Connect-Accept-Encoding",
		"Connect-Content-Encoding", "Grpc-Timeout", "Grpc-Encoding", "Grpc-Accept-Encoding", "X-Grpc-Web", "X-User-Agent"}
	corsResponseHeaders = []string{"Grpc-Status", "Grpc-Message", "Grpc-Status-Details-Bin", "Grpc-Encoding", "Content-Encoding",
		"Connect-Content-Encoding", "Connect-Accept-Encoding"}
)

// answer adds the fields that a request of another origin needs, and answers a preflight request; it returns
// true if the request has been answered.
func (c *cors) answer(call *webCall) bool {
	if c == nil {
		return false
	}
	origin := call.field("Origin")
	if origin == "" {
		return false
	}
	h := call.w.Header()
	h.Add("Vary", "Origin")
	allowed := c.allows(origin)
	preflight := call.r.Method == http.MethodOptions && call.field("Access-Control-Request-Method") != ""
	if allowed {
		h.Set("Access-Control-Allow-Origin", origin)
		h.Set("Access-Control-Expose-Headers", strings.Join(slices.Concat(corsResponseHeaders, c.Expose), ", "))
	}
	if !preflight {
		return false
	}
	if allowed {
		h.Set("Access-Control-Allow-Methods", "GET, POST")
		h.Set("Access-Control-Allow-Headers", strings.Join(slices.Concat(corsRequestHeaders, c.Headers), ", "))
		if c.MaxAge > 0 {
			h.Set("Access-Control-Max-Age", strconv.Itoa(int(c.MaxAge/time.Second)))
		}
	}
	call.w.WriteHeader(http.StatusNoContent)
	return true
}

func (c *cors) allows(origin string) bool {
	return slices.Contains(c.Origins, origin) || slices.Contains(c.Origins, "*")
}
