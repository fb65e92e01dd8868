//go:build race

package rpc_test

const raceFactor = 3
