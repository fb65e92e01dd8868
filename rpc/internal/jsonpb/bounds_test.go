package jsonpb

import (
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc/internal/testpb"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/protobuf/encoding/protowire"
)

// TestMemoryOfNestedMessages: how much memory writing takes does not depend on how deeply messages are nested, which a peer decides where it
// gets back what it has sent. The fields of each are in another order in wire format than in JSON: those of oneofs are last.
func TestMemoryOfNestedMessages(t *testing.T) {
	pool := tarntest.NewPool(t)
	const size = 64 << 10
	m := &testpb.Choices{After: strings.Repeat("x", size)}
	for range 500 {
		m = &testpb.Choices{Choice: &testpb.Choices_Choices{Choices: m}, After: "x"}
	}
	if ok, _ := writeBoth(t, pool, m); !ok {
		t.Error("protojson wrote")
	}
	if peak := pool.Stats().Peak; peak > 10*size {
		t.Errorf("%d bytes for %d", peak, size)
	}
}

// TestLazyFieldThatIsNotDecoded: a field that is decoded lazily is written though its wire format, which was kept, is not the shortest.
func TestLazyFieldThatIsNotDecoded(t *testing.T) {
	pool := tarntest.NewPool(t)
	m := new(testpb.Opaque)
	text := `{"right":{"lazy":{"text":"x"}}}`
	if !transcode(pool, []byte(text), m) {
		t.Fatal("protojson read")
	}
	w := new(writer)
	if !w.marshal(pool, 0, m) {
		t.Fatal("protojson wrote")
	}
	b := w.take()
	defer b.Free()
	if string(b.Bytes()) != text {
		t.Errorf("%s", b.Bytes())
	}
}

// TestUnknownFieldOfImpossibleNumber: protobuf does not check what a program sets as unknown fields.
func TestUnknownFieldOfImpossibleNumber(t *testing.T) {
	m := new(testpb.Everything)
	m.ProtoReflect().SetUnknown(append(protowire.AppendVarint(nil, 1<<40), 1))
	writeBoth(t, tarntest.NewPool(t), m)
}
