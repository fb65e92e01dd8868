// Package debug serves a page on which a person sees what a program's pools do, in the manner of
// /debug/pprof:
//
//	http.Handle("/debug/tarn/", debug.Handler(pool))
//
// The page shows bytes in use, idle and pinned but invisible, the hit rate, and gets per second of each
// class, live; the sizes asked for with the ladder through them, what that wastes, and the ladder that
// would waste least, ready to paste; and, while checks are on, who holds the buffers that are out. The
// same figures are served as JSON (?format=json) and as Prometheus text (?format=prometheus). The
// sub-packages prom, otel and vars publish them to a Prometheus registry, an OpenTelemetry meter and
// expvar, so that nobody imports what they do not use.
//
// The page is complete in itself: nothing is fetched from anywhere but the handler, and its content
// security policy forbids it. It works without JavaScript, as tables and still charts. It only reads:
// there is no request that changes a pool. Like /debug/pprof it tells much about the program, sizes
// and stacks, so mount it where only those who run the program can reach it.
//
// The cost of the page does not depend on how often it is opened: pools are asked at most twice a
// second and the ladder is solved at most every five seconds for all who look, everything kept is of
// bounded size, and answers are made in memory before a byte is sent, so a slow reader holds nothing up.
package debug
