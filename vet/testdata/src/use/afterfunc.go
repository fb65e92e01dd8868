package use

import (
	"context"
	"fmt"
	"time"

	"github.com/tarn-go/tarn"
)

func freedBeforeTimer(p *tarn.Pool) {
	b := p.Get(10)
	b.Free()
	time.AfterFunc(time.Second, func() { fmt.Println(b.Bytes()) }) // want `use after free: b was freed at line \d+ and is used here`
}

func freedByTimer(p *tarn.Pool) {
	b := p.Get(10)
	time.AfterFunc(time.Second, func() { b.Free() })
	b.Free() // want `use after free: the function that runs when the timer fires took ownership of b at line \d+, and it is freed here`
}

func usedBesideTimer(p *tarn.Pool) {
	b := p.Get(10)
	time.AfterFunc(time.Second, b.Free)
	fmt.Println(b.Bytes()) // want `use after free: Free took ownership of b at line \d+`
}

func freedByContext(ctx context.Context, p *tarn.Pool) {
	b := p.Get(10)
	context.AfterFunc(ctx, func() {
		fmt.Println(b.Bytes())
		b.Free()
	})
	fmt.Println(b.Bytes()) // want `use after free: the function that runs when the context ends took ownership of b at line \d+`
}

func timerFrees(p *tarn.Pool) {
	b := p.Get(10)
	time.AfterFunc(time.Second, func() {
		fmt.Println(b.Bytes())
		b.Free()
	})
}

func stoppedTimer(p *tarn.Pool) {
	b := p.Get(10)
	t := time.AfterFunc(time.Second, b.Free)
	if t.Stop() {
		b.Free()
	}
}

func stoppedContext(ctx context.Context, p *tarn.Pool) {
	b := p.Get(10)
	stop := context.AfterFunc(ctx, func() { b.Free() })
	if stop() {
		fmt.Println(b.Bytes())
		b.Free()
	}
}
