//go:build !race

package rpc

// exploredMoves is how many moves TestInboxInterleavings makes.
const exploredMoves = 1_000_000
