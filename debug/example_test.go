package debug_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug"
)

// One line mounts the page; it may stand beside /debug/pprof.
func ExampleHandler() {
	pool, err := tarn.NewPool(tarn.PoolConfig{Name: "frames"})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/debug/tarn/", debug.Handler(pool))

	server := httptest.NewServer(mux)
	defer server.Close()
	answer, err := http.Get(server.URL + "/debug/tarn/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer answer.Body.Close()
	fmt.Println(answer.Status, answer.Header.Get("Content-Type"))
	// Output:
	// 200 OK text/html; charset=utf-8
}
