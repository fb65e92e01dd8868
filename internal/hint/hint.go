// Package hint distinguishes goroutines cheaply, to spread them over shards.
package hint
