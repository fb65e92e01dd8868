package directives

import "github.com/tarn-go/tarn"

func owned(p *tarn.Pool) {
	b := p.Get(10) //tarn:owned a finalizer of the test frees it
	_ = b.Len()
}

// allowed shows that a misuse panics.
//
//tarn:allow double,use the misuse is what is shown
func allowed(p *tarn.Pool) {
	b := p.Get(10)
	b.Free()
	b.Free()
}

func line(p *tarn.Pool) {
	//tarn:allow leak it goes with the process
	b := p.Get(10)
	_ = b.Len()
}

func without(p *tarn.Pool) {
	b := p.Get(10) /* want `leak: b` `needs a reason` */ //tarn:owned
	_ = b.Len()
}

func unknownKind(p *tarn.Pool) {
	b := p.Get(10)
	//tarn:allow nonsense because // want `names no kind of finding: "nonsense"`
	b.Free()
}

func needless(p *tarn.Pool) {
	b := p.Get(10) //tarn:owned by the caller // want `nothing is reported here that this would allow`
	b.Free()
}
