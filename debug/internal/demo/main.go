// Command demo runs two pools under generated traffic and serves their page, with an invented server:
//
//	go run ./debug/internal/demo -addr 127.0.0.1:8080
//
// One pool has a ladder of powers of two, so that there is waste to see; the other has the default one.
package main

import (
	"flag"
	"log"
	"math"
	"math/rand/v2"
	"net/http"
	_ "net/http/pprof"
	"time"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug"
)

func main() {
	addr := flag.String("addr", "127.0.0.1:8080", "address to serve on")
	flag.Parse()
	var doubling []int
	for c := 256; c <= 1<<20; c *= 2 {
		doubling = append(doubling, c)
	}
	storage, err := tarn.NewPool(tarn.PoolConfig{Name: "storage", Classes: doubling, Budget: 192 << 20, Check: tarn.CheckSampled, CheckEvery: 32})
	if err != nil {
		log.Fatal(err)
	}
	rpc, err := tarn.NewPool(tarn.PoolConfig{Name: "rpc"})
	if err != nil {
		log.Fatal(err)
	}
	go traffic(storage, records)
	go traffic(rpc, messages)
	go cache(storage)
	show := debug.NewRegistry(storage, rpc)
	show.AddEndpoints(newShop(time.Now()))
	http.Handle("/debug/tarn/", debug.HandlerOf(show))
	log.Printf("http://%s/debug/tarn/", *addr)
	log.Fatal(http.ListenAndServe(*addr, nil))
}

// records are blocks of a storage service: two protocol sizes with a header, and a spread.
func records(rng *rand.Rand) int {
	switch n := rng.IntN(10); {
	case n < 2:
		return 16<<10 + 40
	case n < 3:
		return 64<<10 + 300 + rng.IntN(300)
	default:
		return min(1+int(21000*math.Exp(0.9*rng.NormFloat64())), 1<<20)
	}
}

// messages are small ones of an RPC service, and some large.
func messages(rng *rand.Rand) int {
	return min(1+int(900*math.Exp(1.4*rng.NormFloat64())), 1<<20)
}

// traffic holds a number of buffers that rises and falls.
func traffic(p *tarn.Pool, size func(*rand.Rand) int) {
	rng := rand.New(rand.NewPCG(1, 2))
	var held []tarn.Buffer
	ticker := time.NewTicker(4 * time.Millisecond)
	start := time.Now()
	for now := range ticker.C {
		t := now.Sub(start).Seconds()
		want := int(700 + 420*math.Sin(t/7) + 180*math.Sin(t/2.3))
		for range 60 + int(40*math.Sin(t/5)) {
			held = append(held, receive(p, size(rng)))
		}
		for len(held) > want {
			i := rng.IntN(len(held))
			held[i].Free()
			held[i] = held[len(held)-1]
			held = held[:len(held)-1]
		}
	}
}

func receive(p *tarn.Pool, n int) tarn.Buffer { return p.Get(n) }

// cache keeps parts of some buffers for long, as a cache of headers does.
func cache(p *tarn.Pool) {
	rng := rand.New(rand.NewPCG(3, 4))
	kept := make([]tarn.Buffer, 400)
	tick := time.NewTicker(300 * time.Millisecond)
	for n := 0; ; n++ {
		i := n
		if n >= len(kept) {
			<-tick.C
			i = rng.IntN(len(kept))
			kept[i].Free()
		}
		kept[i] = admit(p, 20<<10+rng.IntN(8<<10))
	}
}

// admit keeps the head of a block alone, and so pins the rest of it, unseen.
func admit(p *tarn.Pool, n int) tarn.Buffer {
	head, tail := p.Get(n).Split(2 << 10)
	tail.Free()
	return head
}
