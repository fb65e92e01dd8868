// Package hint tells goroutines apart cheaply, to spread them over shards.
package hint
