//go:build go1.27

package h2http

import "net/http"

// maxHeaderValues returns the server's MaxHeaderValueCount; 0: its default.
func maxHeaderValues(srv *http.Server) int { return srv.MaxHeaderValueCount }

// ignoresPriority returns the server's DisableClientPriority.
func ignoresPriority(srv *http.Server) bool { return srv.DisableClientPriority }
