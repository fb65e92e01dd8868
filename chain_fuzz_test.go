package tarn_test

import (
	"testing"
)

func TestChainModel(t *testing.T) { runPrograms(t, 100, 400, runRope) }

func FuzzChain(f *testing.F) { fuzzPrograms(f, 8, 300, runRope) }
