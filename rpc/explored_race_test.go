//go:build race

package rpc

// exploredMoves is how many moves TestInboxInterleavings makes.
const exploredMoves = 50_000

// exploredGates is how many seeds TestGateInterleavings has.
const exploredGates = 50_000
