package h2

import "github.com/tarn-go/tarn"

// Out is what one Write, Post or Open sends, in this order: HEADERS of Block and
// then Fields, if either is set; DATA of Data, then all of Rest and then of Source; HEADERS of
// TrailerBlock and then Trailers, if either is set, which end the stream.
// Ownership of Data and of what Rest holds is taken, on errors too.
type Out struct {
	Block        *Block
	Fields       []Field
	Data         tarn.Buffer
	Rest         *tarn.Chain // nil: nothing; left empty
	Source       Source      // Write only; supplies SourceLen bytes
	SourceLen    int64       // what a Write has not had from Source is left here; if that is not 0 and the Write returns nil, Source has ended it, and neither trailers nor Ending were sent
	TrailerBlock *Block
	Trailers     []Field
	Ending       Ending // END_STREAM on the last frame; trailers imply it
	Release      bool   // Write and WriteLater release the stream as Release does, unless they fail
	NoWait       bool   // Open does not wait while the peer permits no further stream
	LeaveData    bool   // Open with a context does not wait to send DATA: what would wait stays in Data, the caller's; not with Rest or trailers
	Opened       bool   // set by Open when the stream exists, also if Open then fails
}

func (o *Out) hasHeader() bool { return o.Block != nil || len(o.Fields) > 0 }

func (o *Out) hasTrailer() bool { return o.TrailerBlock != nil || len(o.Trailers) > 0 }

// dataLen returns how many bytes of DATA have yet to be queued, without those of Source.
func (o *Out) dataLen() int {
	n := o.Data.Len()
	if o.Rest != nil {
		n += o.Rest.Len()
	}
	return n
}

// freeEmpty frees Data if it is empty: such a reference holds its slab, too.
func (o *Out) freeEmpty() {
	if o.Data.Len() == 0 {
		o.Data.Free()
		o.Data = tarn.Buffer{}
	}
}

// free takes ownership of what o holds, and frees it.
func (o *Out) free() {
	o.Data.Free()
	o.Data = tarn.Buffer{}
	if o.Rest != nil {
		o.Rest.Free()
	}
}

// failed frees what is left of o after a Write has failed with err, and panics if its Source has. c.mu is not held: who recovers may use the
// connection.
func (o *Out) failed(err error) {
	o.free()
	if p, ok := err.(*sourcePanic); ok {
		panic(p.value)
	}
}
