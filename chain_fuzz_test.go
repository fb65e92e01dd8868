package tarn_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

// TestChainModel runs random programs; a failure names the seed that makes it again.
func TestChainModel(t *testing.T) {
	for range programs(100) {
		seed := rand.Uint64()
		code := randomProgram(seed, 400)
		if !t.Run("", func(t *testing.T) { runRope(t, code) }) {
			t.Fatalf("seed %#x", seed)
		}
	}
}

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

func FuzzChain(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(randomProgram(seed, 300))
	}
	f.Fuzz(func(t *testing.T, code []byte) { runRope(t, code[:min(len(code), 1000)]) })
}
