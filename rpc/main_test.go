package rpc_test

import (
	"flag"
	"os"
	"strconv"
	"testing"
)

// TestMain runs four tests with t.Parallel at once on machines with fewer processors, unless -parallel says otherwise: they wait for real
// time, and do little.
func TestMain(m *testing.M) {
	flag.Parse()
	f := flag.Lookup("test.parallel")
	if n, err := strconv.Atoi(f.Value.String()); err == nil && n < 4 && f.Value.String() == f.DefValue {
		if err := f.Value.Set("4"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
