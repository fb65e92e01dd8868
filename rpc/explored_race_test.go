//go:build race

package rpc

// exploredMoves is how many moves TestInboxInterleavings makes; ten times as many with TARN_LONG=1.
const exploredMoves = 50_000

// exploredGates is how many seeds TestGateInterleavings has; ten times as many with TARN_LONG=1.
const exploredGates = 50_000
