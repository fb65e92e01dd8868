package smb

// removedAtOnce is how many files are removed at a time.
const removedAtOnce = 64

// atOnce calls do for the items, up to n at a time, and done with each and its result, in the caller's goroutine. When done returns
// an error it begins no further items, and returns the first such error.
func atOnce[T any](n int, items []T, do func(T) error, done func(T, error) error) (failed error) {
	type result struct {
		item T
		err  error
	}
	results := make(chan result, n)
	for running := 0; ; running-- {
		for ; failed == nil && len(items) > 0 && running < n; running++ {
			item := items[0]
			items = items[1:]
			go func() { results <- result{item, do(item)} }()
		}
		if running == 0 {
			return failed
		}
		r := <-results
		if err := done(r.item, r.err); failed == nil {
			failed = err
		}
	}
}
