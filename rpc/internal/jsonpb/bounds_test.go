package jsonpb

import (
	"strings"
	"testing"

	"github.com/tarn-go/tarn/rpc/internal/jsonpb/internal/testpb"
	"github.com/tarn-go/tarn/tarntest"
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
