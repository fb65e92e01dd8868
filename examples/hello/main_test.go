package main

func Example() {
	main()
	// Output:
	// hello, from rpc's client
	// hello, from grpc-go's client
}
