package quiet

import (
	"testing"

	"github.com/tarn-go/tarn"
)

func caught(f func()) (v any) {
	defer func() { v = recover() }()
	f()
	return nil
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMisuse(t *testing.T) {
	var p tarn.Pool
	b := p.Get(10)
	b.Free()
	if caught(b.Free) == nil || caught(func() { b.Free() }) == nil || caught(func() { b.Ref() }) == nil {
		t.Error("no panic")
	}
}

func TestHelper(t *testing.T) {
	var p tarn.Pool
	b, err := p.Acquire(t.Context(), 10)
	check(t, err)
	if b.Len() != 10 {
		t.Fatal("other length") // what is out does not matter any more
	}
	if b.Len() == 3 {
		t.Error("failed")
		return
	}
	b.Free()
}

func TestListedAndCalledByOneThatRecovers(t *testing.T) {
	p := tarn.Shared()
	for name, use := range map[string]func(){
		"Get":  func() { p.Get(-1) },
		"Free": func() { b := p.Get(1); b.Free(); b.Free() },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			use()
		})
	}
}
