package main

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
)

func Example() {
	srv, err := newServer("")
	if err != nil {
		log.Fatal(err)
	}
	s := httptest.NewServer(srv.Handler)
	defer s.Close()
	resp, err := http.Post(s.URL+"/grpc.testing.TestService/UnaryCall", "application/json", strings.NewReader(`{"payload":{"body":"aGVsbG8="}}`))
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	fmt.Println(resp.StatusCode, string(body))
	// Output: 200 {"payload":{"body":"aGVsbG8="},"username":"5 bytes"}
}
