package budget

import (
	"slices"
	"testing"
)

// Crossings are reported one at a time and in order, whichever goroutines cross: the mark that was
// reported last is the one that holds.
func TestCrossingsAreReportedInOrder(t *testing.T) {
	var b *Budget
	var reported []Crossing
	b = New(Config{High: 10, Low: 5, Crossed: func(mark Crossing, _ int64) {
		if mark == AboveHigh && len(reported) == 0 {
			refunded := make(chan struct{})
			go func() {
				b.Refund(10) // falls below Low while AboveHigh is being reported
				close(refunded)
			}()
			<-refunded
		}
		reported = append(reported, mark)
	}})
	b.Charge(10)
	if want := []Crossing{AboveHigh, BelowLow}; !slices.Equal(reported, want) {
		t.Errorf("reported %v, want %v", reported, want)
	}
}

// Crossed may itself charge and refund.
func TestCrossedMayUseTheBudget(t *testing.T) {
	var b *Budget
	var reported []Crossing
	b = New(Config{High: 10, Low: 5, Crossed: func(mark Crossing, _ int64) {
		reported = append(reported, mark)
		if len(reported) == 1 {
			b.Refund(8)
			b.Charge(20)
		}
	}})
	b.Charge(10)
	if want := []Crossing{AboveHigh, BelowLow, AboveHigh}; !slices.Equal(reported, want) {
		t.Errorf("reported %v, want %v", reported, want)
	}
}

// A panic of Crossed leaves the budget in working order.
func TestCrossedMayPanic(t *testing.T) {
	calls := 0
	b := New(Config{High: 10, Low: 5, Crossed: func(Crossing, int64) {
		if calls++; calls == 1 {
			panic("mine")
		}
	}})
	func() {
		defer func() {
			if recover() != "mine" {
				t.Error("the panic did not reach the caller")
			}
		}()
		b.Charge(10)
	}()
	b.Refund(10)
	if calls != 2 {
		t.Errorf("%d calls, want 2", calls)
	}
}
