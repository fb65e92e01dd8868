package refs

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"

	"github.com/tarn-go/tarn/vet/internal/code"
	"github.com/tarn-go/tarn/vet/internal/contracts"
	"github.com/tarn-go/tarn/vet/internal/kinds"
)

// This file handles raw messages: SendMsg of a gRPC stream takes what the Buffer or Chain to which its argument points has, and
// RecvMsg stores a message in it. Their parameters are of type any, so that no contract can say so.

// rawMessage is the pointer in the argument of SendMsg or RecvMsg, or nil.
func rawMessage(c *ssa.CallCommon) (ptr ssa.Value, name string) {
	fn := code.Callee(c)
	if fn == nil || fn.Name() != "SendMsg" && fn.Name() != "RecvMsg" {
		return nil, ""
	}
	sig := fn.Signature()
	if sig.Recv() == nil || sig.Params().Len() != 1 || sig.Results().Len() != 1 || !code.IsError(sig.Results().At(0).Type()) {
		return nil, ""
	}
	if it, ok := sig.Params().At(0).Type().Underlying().(*types.Interface); !ok || it.NumMethods() > 0 {
		return nil, ""
	}
	msg, ok := c.Args[len(c.Args)-1].(*ssa.MakeInterface)
	if !ok {
		return nil, ""
	}
	return msg.X, fn.Name()
}

// onlyRaw reports whether an interface value is only the argument of SendMsg or RecvMsg.
func onlyRaw(msg *ssa.MakeInterface) bool {
	for _, u := range *msg.Referrers() {
		call, ok := u.(*ssa.Call)
		if !ok {
			return false
		}
		if ptr, _ := rawMessage(&call.Call); ptr != msg.X || call.Call.Value == ssa.Value(msg) {
			return false
		}
	}
	return true
}

// rawContract is the contract of SendMsg or RecvMsg for a pointer to a Chain.
func (f *function) rawContract(c *ssa.CallCommon) *contracts.Contract {
	ptr, name := rawMessage(c)
	if ptr == nil || f.kinds.Pointee(ptr.Type()) != kinds.Container {
		return nil
	}
	if name == "SendMsg" {
		return &contracts.Contract{Params: []contracts.Param{{}, {Effect: contracts.Drop}}}
	}
	return &contracts.Contract{Params: []contracts.Param{{}, {Effect: contracts.Fill}}}
}

// rawBuffer handles SendMsg or RecvMsg of a pointer to a Buffer.
func (f *function) rawBuffer(s *state, c *ssa.CallCommon, v ssa.Value, pos token.Pos) {
	ptr, name := rawMessage(c)
	if ptr == nil || f.kinds.Pointee(ptr.Type()) != kinds.Handle {
		return
	}
	at, ok := f.placeOf(ptr)
	if !ok || !at.Local() || s.escaped[at.Root] {
		if ok {
			f.giveAway(s, s.Mem[at])
		}
		f.escapePointer(s, ptr)
		return
	}
	b := s.Mem[at]
	from := fromReceived
	if name == "SendMsg" {
		from = fromSent
	}
	r := f.refAt(refKey{v: at.Root, from: from, path: at.Path}, kinds.Handle, pos)
	r.site, r.field = at.Root, f.nameOf(at)
	if name == "SendMsg" {
		f.look(s, binding{refs: b.refs}, pos, "used")
		f.give(s, b, pos, name)
		s.lives[r] = life{st: void}
		s.Mem[at] = binding{refs: []*ref{r}}
		return
	}
	f.giveAway(s, b)
	key, ok := f.outcome(v, contracts.IfNil, 0)
	if !ok {
		f.escapePointer(s, ptr)
		return
	}
	s.unlearn(key)
	s.lives[r] = life{st: held, pos: pos, key: key, alt: void}
	s.Mem[at] = binding{refs: []*ref{r}}
}
