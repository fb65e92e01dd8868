//go:build race

package message

// rounds is how many of n random messages a test of one goroutine makes: the race detector finds nothing in it and makes it
// ten times slower.
func rounds(n int) int { return n / 5 }
