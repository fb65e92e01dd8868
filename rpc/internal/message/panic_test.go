package message

import (
	"testing"

	"github.com/tarn-go/tarn/tarntest"
)

// panics is a message whose generated method panics.
type panics struct{}

func (*panics) Reset()                        {}
func (*panics) Size() int                     { return 100 }
func (*panics) MarshalTo([]byte) (int, error) { panic("the message's") }

// TestMarshalThatPanics: the memory for a message whose method panics is freed.
func TestMarshalThatPanics(t *testing.T) {
	pool := tarntest.NewPool(t)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	_, _ = Proto{}.Marshal(pool, new(panics))
}
