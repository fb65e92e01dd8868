package use

import (
	"fmt"
	"sync"

	"github.com/tarn-go/tarn"
)

func afterGroup(p *tarn.Pool) {
	b := p.Get(10)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer b.Free()
		fmt.Println(b.Bytes())
	})
	fmt.Println(b.Bytes()) // want `use after free: the goroutine took ownership of b at line \d+`
	wg.Wait()
}

func freedAfterGroup(p *tarn.Pool) {
	b := p.Get(10)
	var wg sync.WaitGroup
	wg.Go(func() {
		defer b.Free()
		fmt.Println(b.Bytes())
	})
	wg.Wait()
	b.Free() // want `use after free: the goroutine took ownership of b at line \d+`
}

func freedByMethodValue(p *tarn.Pool) {
	b := p.Get(10)
	var wg sync.WaitGroup
	wg.Go(b.Free)
	wg.Wait()
	fmt.Println(b.Bytes()) // want `use after free: Free took ownership of b at line \d+`
}

func freedDuringGroup(p *tarn.Pool) {
	b := p.Get(10)
	var wg sync.WaitGroup
	wg.Go(func() { fmt.Println(b.Bytes()) }) // want `escape: bytes of b are used by a goroutine that is started here`
	b.Free()
	wg.Wait()
}

func freedWhenGroupIsDone(p *tarn.Pool) {
	b := p.Get(10)
	var wg sync.WaitGroup
	wg.Go(func() { fmt.Println(b.Bytes()) })
	wg.Wait()
	b.Free()
}

func freedInGroup(p *tarn.Pool, n int) {
	var wg sync.WaitGroup
	for range n {
		b := p.Get(10)
		wg.Go(func() {
			defer b.Free()
			fmt.Println(b.Bytes())
		})
	}
	wg.Wait()
}

func refsInGroup(p *tarn.Pool) int {
	b := p.Get(10)
	defer b.Free()
	var wg sync.WaitGroup
	r := b.Ref()
	wg.Go(func() {
		defer r.Free()
		fmt.Println(r.Bytes())
	})
	n := len(b.Bytes())
	wg.Wait()
	return n
}

// process takes ownership of b.
func process(b tarn.Buffer) error {
	defer b.Free()
	return nil
}

func handledInGoroutine(p *tarn.Pool) byte {
	b := p.Get(10)
	go func() {
		if err := process(b); err != nil {
			fmt.Println(err)
		}
	}()
	return b.Bytes()[0] // want `use after free: the goroutine took ownership of b at line \d+`
}

func handledInGroup(p *tarn.Pool) {
	b := p.Get(10)
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := process(b); err != nil {
			fmt.Println(err)
		}
	})
	wg.Wait()
	b.Free() // want `use after free: the goroutine took ownership of b at line \d+`
}
