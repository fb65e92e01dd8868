// Package debug serves a page that shows what a program's pools do, as /debug/pprof does for profiles:
//
//	http.Handle("/debug/tarn/", debug.Handler(pool))
//
// The page shows bytes in use, idle and pinned but invisible, the hit rate, and gets per second of each
// class, live; the sizes asked for with the pool's size classes (its ladder), what these waste, and the ladder
// that would waste least, ready to paste; and, while checks are on, who holds the buffers that are out. The
// same figures are served as JSON (?format=json) and as Prometheus text (?format=prometheus). The
// sub-packages prom, otel and vars publish them to a Prometheus registry, an OpenTelemetry meter and
// expvar, so that a program imports only what it uses.
//
// The page fetches nothing from anywhere but the handler; its content security policy forbids it. It
// works without JavaScript, as tables and still charts. It only reads: there is no request that changes
// a pool. Like /debug/pprof it shows sizes and stacks of the program, so mount it where only those who
// run the program can reach it.
//
// The cost of the page does not depend on how often it is opened: pools are asked at most twice a
// second and the ladder is solved at most every five seconds for all clients (only ?format=pprof reads the pools
// for each request), everything kept is of bounded size, and answers are made in memory before a byte is sent, so a slow client delays no other.
package debug
