package bench

import (
	"runtime"
	"sync"
)

// everywhere returns an operation that shares its count out among all processors.
func everywhere(do func()) func(n int) {
	return func(n int) {
		procs := runtime.GOMAXPROCS(0)
		var wg sync.WaitGroup
		for i := range procs {
			share := n / procs
			if i < n%procs {
				share++
			}
			wg.Go(func() {
				for range share {
					do()
				}
			})
		}
		wg.Wait()
	}
}
