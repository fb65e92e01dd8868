package rpc

// HealthServer makes h, a *health.Server of grpc-go or another health service with a Shutdown method, follow the
// server: Stop and GracefulStop call h.Shutdown before they close a listener or send GOAWAY. Health checks over
// connections that are still open, or by way of another server on which h is registered, are then answered with
// NOT_SERVING. h is registered by the caller, on any server; it may be given to several, of which the first to stop
// shuts it down. Each Stop and GracefulStop calls Shutdown, so that it must permit several calls. A Watch is a running
// call: GracefulStop waits until its client ends it, which clients of grpc-go and of this package do at GOAWAY.
func HealthServer(h interface{ Shutdown() }) ServerOption {
	return serverOption(func(o *serverOptions) { o.health = append(o.health, h) })
}

// stopHealth makes the health services NOT_SERVING.
func (s *Server) stopHealth() {
	for _, h := range s.opts.health {
		h.Shutdown()
	}
}
