// Package bench measures Tarn beside its peers. It is a separate module, so that no program that uses
// Tarn requires them, and is not published.
//
// Every benchmark has a sub-benchmark for each contestant, named peer=NAME, so that
//
//	go test -run '^$' -bench . -count 6 | tee new.txt
//	benchstat -col /peer new.txt
//
// sets them side by side; run.sh prints them as Markdown. The contestants:
//
//	tarn            package tarn, counters and stale checks on, as in production
//	make            a new slice each time, freed by the garbage collector
//	syncpool        a bare sync.Pool of *[]byte of one size: no classes, no counts, no checks
//	grpc            google.golang.org/grpc/mem with its default pool, which zeroes
//	grpc-nozero     the same with a pool that does not zero, through mem's public interface
//	bytebufferpool  github.com/valyala/bytebufferpool
//	libp2p          github.com/libp2p/go-buffer-pool
//	mcache          github.com/bytedance/gopkg/lang/mcache
//	shards          the scheme of jsign/bufpool, restated here (it cannot be had as a module)
//
// Benchmarks of operations that take about ten nanoseconds loop over b.N, as the peers' benchmarks do: b.Loop
// counts in memory, and an atomic operation waits for that store.
package bench
