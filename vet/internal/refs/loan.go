package refs

// This file handles bytes borrowed from a value that is no reference, such as those of wire.Reader.Peek: they end
// when its next method is called.

import (
	"go/token"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/conditions"
	"github.com/tarn-go/tarn/vet/internal/flow"
	"github.com/tarn-go/tarn/vet/internal/kinds"
	"github.com/tarn-go/tarn/vet/internal/report"
)

// lend binds the bytes that a call lends.
func (f *function) lend(s *state, c *ssa.CallCommon, v ssa.Value, at flow.Slot, lender ssa.Value, pos token.Pos) {
	r := f.refAt(refKey{v: v, from: fromLoan, index: at.Index}, kinds.Loan, pos)
	r.owner, r.lender = or(f.argumentText(c, 0), "the receiver"), f.term(lender)
	s.lives[r] = life{st: held}
	s.Vals[at] = binding{views: []view{{of: r}}}
}

// endLoans ends the loans from a method's receiver.
func (f *function) endLoans(s *state, c *ssa.CallCommon, pos token.Pos) {
	vars := code.Operands(c)
	if len(vars) == 0 || code.Callee(c) == nil || code.Callee(c).Signature().Recv() == nil {
		return
	}
	var lender *conditions.Term
	for r, l := range s.lives {
		if r.kind != kinds.Loan || l.st != held {
			continue
		}
		if lender == nil {
			lender = f.term(vars[0])
		}
		if r.lender != lender {
			continue
		}
		if l.kept.by != noKeeper {
			f.report(s, report.Escape, r, l.kept.pos, l.kept.in)
		}
		s.lives[r] = life{st: freed, pos: pos, by: f.callText(c)}
	}
}
