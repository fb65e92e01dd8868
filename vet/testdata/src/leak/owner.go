package leak

import "github.com/tarn-go/tarn"

type job struct {
	body  tarn.Chain
	head  tarn.Buffer
	arena *tarn.Arena
	parts []tarn.Buffer
	freed tarn.Chain
	kept  []tarn.Buffer
	given tarn.Buffer
	lent  tarn.Buffer // owned by the job's maker
}

func newJob(p *tarn.Pool, lent tarn.Buffer) *job {
	j := &job{arena: tarn.NewArena(p, 1<<10)} // want `leak: the field arena of job takes a reference here, and no function of this package frees`
	j.head = p.Get(10)                        // want `leak: the field head of job takes a reference here`
	j.given = p.Get(10)
	j.lent = lent
	return j
}

func (j *job) add(b tarn.Buffer, p *tarn.Pool) {
	j.body.Append(b) // want `leak: the field body of job takes a reference here`
	j.freed.Append(p.Get(1))
	j.parts = append(j.parts, j.arena.Get(3)) // want `leak: the field parts of job takes a reference here`
	j.kept = append(j.kept, j.arena.Get(3))
}

func (j *job) length() int { return j.body.Len() + j.head.Len() + len(j.lent.Bytes()) + len(j.parts) }

func (j *job) end(out chan tarn.Buffer) {
	j.freed.Free()
	for _, b := range j.kept {
		b.Free()
	}
	out <- j.given
}

// Exported is filled here and freed elsewhere.
type Exported struct{ Data tarn.Buffer }

func newExported(p *tarn.Pool) *Exported { return &Exported{Data: p.Get(10)} }

type embeds struct{ tarn.Chain }

func (e *embeds) add(b tarn.Buffer) { e.Append(b) }

type list struct {
	next *list
	b    tarn.Buffer
}

func (l *list) push(p *tarn.Pool) *list { return &list{l, p.Get(1)} }

func (l *list) drop() {
	for ; l != nil; l = l.next {
		l.b.Free()
	}
}

type byCopy struct{ b tarn.Buffer }

func makeByCopy(p *tarn.Pool) byCopy { return byCopy{p.Get(1)} }

func dropByCopy(list []byCopy) {
	for _, c := range list {
		c.b.Free()
	}
}
