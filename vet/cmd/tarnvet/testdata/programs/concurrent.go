package programs

import (
	"fmt"
	"log"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarn-go/tarn"
)

// 25. A pipeline of goroutines.
func pipeline(p *tarn.Pool, lines []string) int64 {
	in, out := make(chan tarn.Buffer), make(chan tarn.Buffer)
	go func() {
		defer close(in)
		for _, l := range lines {
			in <- p.Copy([]byte(l))
		}
	}()
	var wg sync.WaitGroup
	for range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for b := range in {
				if b.Len() == 0 {
					b.Free()
					continue
				}
				out <- b
			}
		}()
	}
	go func() { wg.Wait(); close(out) }()
	var total int64
	for b := range out {
		total += int64(len(b.Bytes()))
		b.Free()
	}
	return total
}

func pipelineLeaky(in, out chan tarn.Buffer, keep func([]byte) bool) {
	for b := range in { // want "leak: b from <-in"
		if !keep(b.Bytes()) {
			continue
		}
		out <- b
	}
}

// 26. A reference for each goroutine, and one that has none of its own.
func fan(b tarn.Buffer, n int) int64 {
	var sum atomic.Int64
	var wg sync.WaitGroup
	for range n {
		mine := b.Ref()
		wg.Go(func() {
			defer mine.Free()
			sum.Add(int64(len(mine.Bytes())))
		})
	}
	wg.Wait()
	return sum.Load()
}

func fanLeaky(b tarn.Buffer, n int) int64 {
	var sum atomic.Int64
	var wg sync.WaitGroup
	for range n {
		mine := b.Ref() // want "leak: mine from b.Ref"
		wg.Go(func() { sum.Add(int64(len(mine.Bytes()))) })
	}
	wg.Wait()
	return sum.Load()
}

// 27. The goroutine has the reference, and so has this function.
func both(p *tarn.Pool, done chan struct{}) {
	b := p.Get(10)
	go func() {
		defer close(done)
		b.Bytes()[0] = 1
		b.Free()
	}()
	<-done
	b.Free() // want "use after free: the goroutine took ownership of b"
}

// 28. A timer gives up.
func await(ch chan tarn.Buffer, d time.Duration) (tarn.Buffer, bool) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case b := <-ch:
		return b, true
	case <-t.C:
		return tarn.Buffer{}, false
	}
}

func awaitAll(ch chan tarn.Buffer) {
	for {
		b, ok := await(ch, time.Second)
		if !ok {
			return
		}
		log.Printf("%d bytes", b.Len())
		b.Free()
	}
}

func awaitLeaky(ch chan tarn.Buffer) int {
	b, ok := await(ch, time.Second) // want "leak: b from await"
	if !ok {
		return 0
	}
	return b.Len()
}

// 29. An arena for the tokens of a line.
func tokens(p *tarn.Pool, words []string) (n int) {
	a := tarn.NewArena(p, 4<<10)
	defer a.Free()
	for _, w := range words {
		t := a.Get(len(w))
		copy(t.Bytes(), w)
		n += len(t.Bytes())
		t.Free()
	}
	return n
}

func tokensLeaky(p *tarn.Pool, words []string) (n int) {
	a := tarn.NewArena(p, 4<<10)
	defer a.Free()
	for _, w := range words {
		t := a.Get(len(w)) // want "leak: t from a.Get"
		if n += copy(t.Bytes(), w); n > 100 {
			break
		}
		t.Free()
	}
	return n
}

// 30. Writing what others see.
func patch(b tarn.Buffer, send func(tarn.Buffer)) {
	send(b.Ref())
	b.Bytes()[0] = 1 // want "write: bytes of b"
	b.Free()
}

func patchShared(p *tarn.Pool, queue *tarn.Chain) {
	b := p.Get(10)
	queue.Append(b.Ref())
	b.Bytes()[0] = 1 // want "write: bytes of b"
	b.Free()
}

func patchUnique(p *tarn.Pool, queue *tarn.Chain) {
	b := p.Get(10)
	other := b.Ref()
	queue.Append(other)
	if !b.Unique() {
		c := b.Clone()
		b.Free()
		b = c
	}
	b.Bytes()[0] = 1
	b.Free()
}

// 31. A test helper.
func mustBuffer(t *testing.T, p *tarn.Pool, err error) tarn.Buffer {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return p.Get(10)
}

// 32. A main that ends the process on errors.
func mainLike(p *tarn.Pool) {
	b := p.Get(10)
	f, err := os.Open(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Read(b.Bytes()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Printf("%x\n", b.Bytes())
	b.Free()
}

// 33. Defer in a loop, and a defer that frees again.
func each(p *tarn.Pool, n int) {
	for i := range n {
		func() {
			b := p.Get(i)
			defer b.Free()
			use(b.Bytes())
		}()
	}
}

func twiceByDefer(p *tarn.Pool, bad bool) error {
	b := p.Get(10)
	defer b.Free() // want "double free: b is freed at line"
	if bad {
		b.Free()
		return errTooLong
	}
	return nil
}

func use([]byte) {}

// 34. A variable that changes hands.
func grow(p *tarn.Pool, chunks [][]byte) tarn.Buffer {
	b := p.Get(0)
	for _, c := range chunks {
		n := p.Get(b.Len() + len(c))
		copy(n.Bytes()[copy(n.Bytes(), b.Bytes()):], c)
		b.Free()
		b = n
	}
	return b
}

func growLeaky(p *tarn.Pool, chunks [][]byte) tarn.Buffer {
	b := p.Get(1) // want "leak: b from p.Get"
	for _, c := range chunks {
		n := p.Get(b.Len() + len(c)) // want "leak: n from p.Get"
		copy(n.Bytes()[copy(n.Bytes(), b.Bytes()):], c)
		b = n
	}
	return b
}

// 35. A struct by value with an optional reference.
type reply struct {
	status int
	body   tarn.Buffer
}

func ask(p *tarn.Pool, status int) reply {
	if status != 200 {
		return reply{status: status}
	}
	return reply{status: status, body: p.Get(10)}
}

func handleReply(p *tarn.Pool) int {
	r := ask(p, 200)
	defer r.body.Free()
	return r.status
}

// 36. Method values.
func withCleanup(p *tarn.Pool, cleanup func(func())) []byte {
	b := p.Get(10)
	cleanup(b.Free)
	return b.Bytes()
}

// 47. A select statement after which nothing depends on the case that was chosen.
func offer(p *tarn.Pool, ch chan tarn.Buffer) {
	b := p.Get(10)
	select {
	case ch <- b:
	default:
		b.Free()
	}
}

func offerLeaky(p *tarn.Pool, ch chan tarn.Buffer) {
	b := p.Get(10) // want "leak: b from p.Get"
	select {
	case ch <- b:
	default:
	}
}

func offerUntilLeaky(p *tarn.Pool, ch chan tarn.Buffer, done chan struct{}) {
	b := p.Get(10) // want "leak: b from p.Get"
	select {
	case <-done:
	case ch <- b:
	}
}

func offerOrStopLeaky(p *tarn.Pool, ch chan tarn.Buffer, done chan struct{}) bool {
	b := p.Get(10) // want "leak: b from p.Get"
	select {
	case <-done:
		return false
	case ch <- b:
		return true
	}
}

func offerOrStop(p *tarn.Pool, ch chan tarn.Buffer, done chan struct{}) bool {
	b := p.Get(10)
	select {
	case <-done:
		b.Free()
		return false
	case ch <- b:
		return true
	}
}

// 48. WaitGroup.Go starts a goroutine as a go statement does.
func countTogether(p *tarn.Pool) (n int) {
	b := p.Get(10)
	defer b.Free()
	var wg sync.WaitGroup
	wg.Go(func() { n = len(b.Bytes()) })
	wg.Wait()
	return n
}

func countTooLate(p *tarn.Pool) (n int) {
	b := p.Get(10)
	var wg sync.WaitGroup
	wg.Go(func() { n = len(b.Bytes()) }) // want "escape: bytes of b are used by a goroutine"
	b.Free()
	wg.Wait()
	return n
}

// 49. A deferred literal that frees what a slice has collected until then.
func freeEach(bs []tarn.Buffer) {
	for _, b := range bs {
		b.Free()
	}
}

func collectAndFree(p *tarn.Pool, sizes []int) int {
	bs := make([]tarn.Buffer, 0, len(sizes))
	defer func() { freeEach(bs) }()
	for _, n := range sizes {
		if n < 0 {
			return len(bs)
		}
		bs = append(bs, p.Get(n))
	}
	return len(bs)
}

func collectAndCount(p *tarn.Pool, sizes []int) {
	bs := make([]tarn.Buffer, 0, len(sizes))
	defer func() { println(len(bs)) }()
	for _, n := range sizes {
		bs = append(bs, p.Get(n)) // want "leak: the references collected in bs"
	}
}

// 50. A Buffer may be printed after Free, its bytes may not.
func nameOf(p *tarn.Pool) error {
	b := p.Get(10)
	b.Free()
	return fmt.Errorf("%v has a bad name", b) // its length and its slab's
}

func nameOfFreed(p *tarn.Pool) error {
	b := p.Get(10)
	name := b.Bytes()[:4]
	b.Free()
	return fmt.Errorf("bad name %q", name) // want "use after free: these are bytes of b"
}

// 51. A goroutine that passes the bytes to a function of the package, and frees.
func show(p []byte) { fmt.Println(p) }

func showLater(p *tarn.Pool) {
	b := p.Get(10)
	r := b.Ref()
	go func() {
		defer r.Free()
		show(r.Bytes())
	}()
	show(b.Bytes())
	b.Free()
}

func showLaterAndNow(p *tarn.Pool) {
	b := p.Get(10)
	go func() {
		defer b.Free()
		show(b.Bytes())
	}()
	show(b.Bytes()) // want "use after free: the goroutine took ownership of b"
}
