package tarn_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// programs is how many of n random programs of one goroutine run: a fifth with -short, and under the race detector,
// which finds nothing in them and makes them ten times slower.
func programs(n int) int {
	if raceEnabled || testing.Short() {
		return n / 5
	}
	return n
}

func randomProgram(seed uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	code := make([]byte, n)
	rand.NewChaCha8(key).Read(code)
	return code
}

// runPrograms runs n random programs of some length in bytes; a failure names the seed that makes it again.
func runPrograms(t *testing.T, n, length int, run func(*testing.T, []byte)) {
	for range programs(n) {
		seed := rand.Uint64()
		code := randomProgram(seed, length)
		if !t.Run("", func(t *testing.T) { run(t, code) }) {
			t.Fatalf("seed %#x", seed)
		}
	}
}

// fuzzPrograms fuzzes run with programs, of which so many random ones are the first.
func fuzzPrograms(f *testing.F, n uint64, length int, run func(*testing.T, []byte)) {
	for seed := range n {
		f.Add(randomProgram(seed, length))
	}
	f.Fuzz(func(t *testing.T, code []byte) { run(t, code[:min(len(code), 1000)]) })
}
