//go:build race

package message

// rounds is how many of n random messages a test of one goroutine makes: the race detector finds nothing in it and makes it
// ten times slower.
func rounds(n int) int { return n / 5 }

// dropped is how many allocations more a call may make on average: under the race detector sync.Pool drops objects at random.
const dropped = 2
