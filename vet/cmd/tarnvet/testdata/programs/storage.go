package programs

import (
	"cmp"
	"compress/gzip"
	"io"
	"iter"
	"slices"
	"sync"

	"github.com/tarn-go/tarn"
)

// 13. A cache of buffers.
type cache struct {
	mu   sync.Mutex
	data map[string]tarn.Buffer
}

// put takes ownership of b.
func (c *cache) put(key string, b tarn.Buffer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.data[key]; ok {
		old.Free()
	}
	c.data[key] = b
}

// get returns a reference to be freed; false when there is none.
func (c *cache) get(key string) (tarn.Buffer, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, ok := c.data[key]
	if !ok {
		return tarn.Buffer{}, false
	}
	return b.Ref(), true
}

func (c *cache) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, b := range c.data {
		b.Free()
		delete(c.data, key)
	}
}

func useCache(c *cache, p *tarn.Pool) int {
	c.put("a", p.Copy([]byte("value")))
	b, ok := c.get("a")
	if !ok {
		return 0
	}
	defer b.Free()
	return len(b.Bytes())
}

func useCacheLeaky(c *cache) int {
	b, ok := c.get("a") // want "leak: b from c.get"
	if !ok {
		return 0
	}
	return len(b.Bytes())
}

// 14. A ring of the last buffers.
type ring struct {
	slots [8]tarn.Buffer
	next  int
}

func (r *ring) push(b tarn.Buffer) {
	i := r.next % len(r.slots)
	r.slots[i].Free()
	r.slots[i] = b
	r.next++
}

func (r *ring) Free() {
	for i := range r.slots {
		r.slots[i].Free()
		r.slots[i] = tarn.Buffer{}
	}
}

// 15. A generic queue.
type queue[T any] struct{ list []T }

func (q *queue[T]) push(v T) { q.list = append(q.list, v) }
func (q *queue[T]) pop() (v T, ok bool) {
	if len(q.list) == 0 {
		return v, false
	}
	v, q.list = q.list[0], q.list[1:]
	return v, true
}

func throughQueue(p *tarn.Pool) {
	var q queue[tarn.Buffer]
	q.push(p.Get(1))
	q.push(p.Get(2))
	for {
		b, ok := q.pop()
		if !ok {
			return
		}
		b.Free()
	}
}

// 16. Sorting references.
func sorted(p *tarn.Pool, lines []string) []string {
	var list []tarn.Buffer
	for _, l := range lines {
		list = append(list, p.Copy([]byte(l)))
	}
	slices.SortFunc(list, func(a, b tarn.Buffer) int { return cmp.Compare(string(a.Bytes()), string(b.Bytes())) })
	var out []string
	for _, b := range list {
		out = append(out, string(b.Bytes()))
		b.Free()
	}
	return out
}

func sortedLeaky(p *tarn.Pool, lines []string) []string {
	var list []tarn.Buffer
	for _, l := range lines {
		list = append(list, p.Copy([]byte(l))) // want "leak: the references collected in"
	}
	slices.SortFunc(list, func(a, b tarn.Buffer) int { return cmp.Compare(string(a.Bytes()), string(b.Bytes())) })
	var out []string
	for _, b := range list {
		out = append(out, string(b.Bytes()))
	}
	return out
}

// 17. Compression into a Writer.
func compress(p *tarn.Pool, data []byte) (tarn.Chain, error) {
	w := tarn.NewWriter(p)
	zw := gzip.NewWriter(w)
	if _, err := zw.Write(data); err != nil {
		w.Free()
		return tarn.Chain{}, err
	}
	if err := zw.Close(); err != nil {
		w.Free()
		return tarn.Chain{}, err
	}
	return w.Take(), nil
}

func compressTo(p *tarn.Pool, dst io.Writer, data []byte) error {
	c, err := compress(p, data)
	if err != nil {
		return err
	}
	defer c.Free()
	_, err = c.WriteTo(dst)
	return err
}

func compressToLeaky(p *tarn.Pool, dst io.Writer, data []byte) error {
	c, err := compress(p, data) // want "leak: c from compress"
	if err != nil {
		return err
	}
	if c.Len() > 1<<20 {
		return errTooLong
	}
	defer c.Free()
	_, err = c.WriteTo(dst)
	return err
}

// 18. Objects that are pooled with their buffers.
type object struct {
	buf  tarn.Buffer
	next *object
}

var objects = sync.Pool{New: func() any { return new(object) }}

func getObject(p *tarn.Pool, n int) *object {
	o := objects.Get().(*object)
	if o.buf.Len() < n {
		o.buf.Free()
		o.buf = p.Get(n)
	}
	return o
}

func getObjectLeaky(p *tarn.Pool, n int) *object {
	o := objects.Get().(*object)
	if o.buf.Len() < n {
		o.buf = p.Get(n) // want "is overwritten without having been freed"
	}
	return o
}

func putObject(o *object) { objects.Put(o) }

// 19. An iterator over the pieces of a buffer.
func pieces(b tarn.Buffer, size int) iter.Seq[tarn.Buffer] {
	return func(yield func(tarn.Buffer) bool) {
		for i := 0; i < b.Len(); i += size {
			s := b.Slice(i, min(i+size, b.Len()))
			if !yield(s) {
				return
			}
		}
	}
}

func sum(b tarn.Buffer) (n int) {
	for s := range pieces(b, 10) {
		n += len(s.Bytes())
		s.Free()
	}
	return n
}

// 20. Labels, continue and break.
func scan(c *tarn.Chain, want byte) (found tarn.Buffer, err error) {
	for c.Len() > 0 {
		b, err := c.Next(16)
		if err != nil {
			return tarn.Buffer{}, err
		}
		for _, v := range b.Bytes() {
			if v == want {
				return b, nil
			}
		}
		b.Free()
	}
	return tarn.Buffer{}, io.EOF
}

func scanLeaky(c *tarn.Chain, want byte) bool {
outer:
	for c.Len() > 0 {
		b, err := c.Next(16) // want "leak: b from c.Next"
		if err != nil {
			return false
		}
		for _, v := range b.Bytes() {
			switch v {
			case want:
				b.Free()
				return true
			case 0:
				continue outer
			}
		}
		b.Free()
	}
	return false
}

// 21. Split into head and body.
func headBody(b tarn.Buffer, n int) (head, body tarn.Buffer, err error) {
	if n > b.Len() {
		b.Free()
		return tarn.Buffer{}, tarn.Buffer{}, io.ErrUnexpectedEOF
	}
	head, body = b.Split(n)
	return head, body, nil
}

func headOnly(b tarn.Buffer, n int) (tarn.Buffer, error) {
	head, body, err := headBody(b, n) // want "leak: body from headBody"
	if err != nil {
		return tarn.Buffer{}, err
	}
	_ = body.Len()
	return head, nil
}

// 22. Concatenation.
func concat(p *tarn.Pool, list ...tarn.Buffer) tarn.Buffer {
	n := 0
	for _, b := range list {
		n += b.Len()
	}
	out := p.Get(n)
	at := 0
	for _, b := range list {
		at += copy(out.Bytes()[at:], b.Bytes())
		b.Free()
	}
	return out
}

// 23. A builder with methods that return it.
type builder struct {
	w *tarn.Writer
}

func newBuilder(p *tarn.Pool) *builder { return &builder{tarn.NewWriter(p)} }

func (b *builder) add(s string) *builder {
	b.w.WriteString(s)
	return b
}

func (b *builder) chain() tarn.Chain { return b.w.Take() }

func build(p *tarn.Pool) tarn.Chain { return newBuilder(p).add("a").add("b").chain() }

// 24. An owner whose Free forgets a field.
type record struct {
	key, value tarn.Buffer
}

func (r *record) Free() { // want "leak: Free does not free the field value"
	r.key.Free()
}
