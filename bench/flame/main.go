// Command flame draws where a program's processor time went: it reads the samples of `perf script` from standard
// input and writes a flame graph as SVG to standard output.
//
//	perf record -F 1999 -g -p PID
//	perf script | go run ./flame -title 'Echo server, 100 B' > flame.svg
//
// A box is a function, its width the share of samples in which it was on the stack, and the boxes above it are the functions
// that it called. Functions below -least of the samples are left out.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
)

func main() {
	title := flag.String("title", "", "what stands above the graph")
	least := flag.Float64("least", 0.4, "the smallest share that is drawn, in percent of the samples")
	flag.Parse()
	if err := run(*title, *least/100); err != nil {
		fmt.Fprintln(os.Stderr, "flame:", err)
		os.Exit(1)
	}
}

func run(title string, least float64) error {
	root, err := readSamples(os.Stdin)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(os.Stdout)
	draw(out, root, title, least)
	return out.Flush()
}
