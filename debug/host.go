package debug

import (
	"net"
	"net/http"
	"strings"
)

// hostAllowed reports whether a request may be answered under the name in its Host header. A page of
// any site can send requests to a server on the visitor's own machine by having its name resolve to
// 127.0.0.1 (DNS rebinding) and would then read this program's stacks. Such a request arrives on a
// loopback address under a name that is not the machine's own; a request to another address has passed
// whatever guards that address.
func hostAllowed(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return true // no net/http server: the caller made the request itself
	}
	tcp, ok := local.(*net.TCPAddr)
	if !ok || !tcp.IP.IsLoopback() {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host) != nil
}
