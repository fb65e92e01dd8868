// Command first is the first program of docs/getting-started.md: a server that takes its memory from a pool, and shows the
// pool's page at http://localhost:6060/debug/tarn/.
package main

import (
	"fmt"
	"log"
	"net/http"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug"
)

func main() {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "frames", Check: tarn.CheckSampled})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/debug/tarn/", debug.Handler(pool))
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		frame := pool.Get(16 << 10) // one reference: free it once
		n := copy(frame.Bytes(), "header|body of "+r.URL.Path)
		header, body := frame.Narrow(0, n).Split(7) // two references, nothing copied
		fmt.Fprintf(w, "%s %s\n", header.Bytes(), body.Bytes())
		header.Free()
		body.Free() // the last one returns the memory to the pool
	})
	fmt.Println("open http://localhost:6060/debug/tarn/")
	log.Fatal(http.ListenAndServe("localhost:6060", nil))
}
