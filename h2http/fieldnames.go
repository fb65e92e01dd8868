package h2http

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// commonNames are header names in their canonical form that are translated without an
// allocation in either direction.
var commonNames = []string{
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language", "Accept-Ranges",
	"Access-Control-Allow-Credentials", "Access-Control-Allow-Headers", "Access-Control-Allow-Methods",
	"Access-Control-Allow-Origin", "Access-Control-Expose-Headers", "Access-Control-Max-Age",
	"Access-Control-Request-Headers", "Access-Control-Request-Method", "Age", "Allow", "Alt-Svc",
	"Authorization", "Cache-Control", "Connect-Protocol-Version", "Connect-Timeout-Ms",
	"Content-Disposition", "Content-Encoding", "Content-Language", "Content-Length",
	"Content-Location", "Content-Range", "Content-Security-Policy", "Content-Type", "Cookie", "Date",
	"Dnt", "Etag", "Expect", "Expires", "Forwarded", "From", "Grpc-Accept-Encoding", "Grpc-Encoding",
	"Grpc-Message", "Grpc-Status", "Grpc-Status-Details-Bin", "Grpc-Timeout", "Host", "If-Match",
	"If-Modified-Since", "If-None-Match", "If-Range", "If-Unmodified-Since", "Last-Modified", "Link",
	"Location", "Max-Forwards", "Origin", "Permissions-Policy", "Pragma", "Priority",
	"Proxy-Authenticate", "Proxy-Authorization", "Range", "Referer", "Referrer-Policy", "Refresh",
	"Retry-After", "Sec-Ch-Ua", "Sec-Ch-Ua-Mobile", "Sec-Ch-Ua-Platform", "Sec-Fetch-Dest",
	"Sec-Fetch-Mode", "Sec-Fetch-Site", "Sec-Fetch-User", "Server", "Set-Cookie",
	"Strict-Transport-Security", "Te", "Traceparent", "Tracestate", "Trailer",
	"Upgrade-Insecure-Requests", "User-Agent", "Vary", "Via", "Www-Authenticate",
	"X-Content-Type-Options", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto",
	"X-Frame-Options", "X-Powered-By", "X-Real-Ip", "X-Request-Id", "X-Requested-With",
}

var canonicalNames, lowerNames = nameTables()

func nameTables() (canonical, lower map[string]string) {
	canonical = make(map[string]string, len(commonNames))
	lower = make(map[string]string, len(commonNames))
	for _, name := range commonNames {
		l := strings.ToLower(name)
		canonical[l], lower[name] = name, l
	}
	return canonical, lower
}

// canonicalName returns a received name as net/http has it.
func canonicalName(name string) string {
	if c, ok := canonicalNames[name]; ok {
		return c
	}
	return http.CanonicalHeaderKey(name)
}

// lowerName returns the name of a header map's key as HTTP/2 sends it; false when it
// cannot be sent.
func lowerName(key string) (string, bool) {
	if l, ok := lowerNames[key]; ok {
		return l, true
	}
	if !httpguts.ValidHeaderFieldName(key) {
		return "", false
	}
	for i := 0; i < len(key); i++ {
		if key[i] >= 0x80 {
			return "", false
		}
	}
	return strings.ToLower(key), true
}

// connectionField reports whether the field of a lower-case name belongs to HTTP/1.1's
// connection and is never sent by HTTP/2 (RFC 9113 section 8.2.2).
func connectionField(name string) bool {
	switch name {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return true
	}
	return false
}
