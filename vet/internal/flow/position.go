package flow

import (
	"cmp"
	"go/ast"
	"go/token"
	"iter"

	"golang.org/x/tools/go/ssa"
)

// Positions are where a function's branches are in its source. The zero value is ready to use.
type Positions struct{ found map[*ssa.If]token.Pos }

// Of is where the source tests a branch's condition. Package ssa has no position for a branch, and for a variable the position of its
// declaration, or of the value that was assigned to it.
func (p *Positions) Of(branch *ssa.If) token.Pos {
	pos, ok := p.found[branch]
	if !ok {
		if p.found == nil {
			p.found = map[*ssa.If]token.Pos{}
		}
		pos = tested(branch)
		p.found[branch] = pos
	}
	return pos
}

func tested(branch *ssa.If) token.Pos {
	pos := branch.Cond.Pos()
	fn := branch.Parent()
	name := variable(fn, branch.Cond)
	if name == "" {
		return pos
	}
	after, before := around(branch)
	var last token.Pos
	for e := range tests(fn) {
		if e.Pos() <= pos && pos < e.End() {
			return pos // it is a part of what is assigned to the variable
		}
		if id, ok := e.(*ast.Ident); ok && id.Name == name && after < id.Pos() && (id.Pos() < before || before == token.NoPos) {
			last = max(last, id.Pos())
		}
	}
	return cmp.Or(last, pos)
}

// variable is the name of the variable that has a value; "" if the value is not that of one.
func variable(fn *ssa.Function, v ssa.Value) (name string) {
	switch v := v.(type) {
	case *ssa.Parameter:
		return v.Name()
	case *ssa.Phi:
		if token.IsIdentifier(v.Comment) {
			return v.Comment
		}
	}
	assigned := func(to, from ast.Expr) {
		if id, ok := to.(*ast.Ident); ok && from.Pos() <= v.Pos() && v.Pos() < from.End() {
			name = id.Name
		}
	}
	for n := range nodes(fn) {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for i, e := range n.Rhs {
				assigned(n.Lhs[i], e)
			}
		case *ast.ValueSpec:
			for i, e := range n.Values {
				assigned(n.Names[i], e)
			}
		}
	}
	return name
}

// around returns positions before and after a branch, token.NoPos for one that is not known.
func around(branch *ssa.If) (after, before token.Pos) {
	b := branch.Block()
	for up := b; up != nil && after == token.NoPos; up = up.Idom() {
		for _, instr := range up.Instrs {
			if pos := evaluated(instr); pos != token.NoPos {
				after = pos
			}
		}
	}
	for _, succ := range b.Succs {
		for _, instr := range succ.Instrs {
			if pos := evaluated(instr); pos > after {
				if before == token.NoPos || pos < before {
					before = pos
				}
				break
			}
		}
	}
	return after, before
}

// evaluated is the position at which an instruction runs. A phi has that of a declaration.
func evaluated(instr ssa.Instruction) token.Pos {
	if _, ok := instr.(*ssa.Phi); ok {
		return token.NoPos
	}
	return instr.Pos()
}

// tests yields the conditions of a function's source, those of && and || one by one, without !.
func tests(fn *ssa.Function) iter.Seq[ast.Expr] {
	return func(yield func(ast.Expr) bool) {
		for n := range nodes(fn) {
			var conds []ast.Expr
			switch n := n.(type) {
			case *ast.IfStmt:
				conds = []ast.Expr{n.Cond}
			case *ast.ForStmt:
				conds = []ast.Expr{n.Cond}
			case *ast.SwitchStmt:
				if n.Tag == nil {
					for _, c := range n.Body.List {
						conds = append(conds, c.(*ast.CaseClause).List...)
					}
				}
			case *ast.BinaryExpr:
				if n.Op == token.LAND || n.Op == token.LOR {
					conds = []ast.Expr{n.X, n.Y}
				}
			}
			for _, e := range conds {
				if e = operand(e); e != nil && !yield(e) {
					return
				}
			}
		}
	}
}

// operand is a condition without parentheses and negation; nil for && and ||, whose operands are tested.
func operand(e ast.Expr) ast.Expr {
	switch e := ast.Unparen(e).(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return operand(e.X)
		}
	case *ast.BinaryExpr:
		if e.Op == token.LAND || e.Op == token.LOR {
			return nil
		}
	}
	return ast.Unparen(e)
}

// nodes yields a function's source without that of literals in it, in preorder.
func nodes(fn *ssa.Function) iter.Seq[ast.Node] {
	return func(yield func(ast.Node) bool) {
		more := true
		if fn.Syntax() == nil {
			return
		}
		ast.Inspect(fn.Syntax(), func(n ast.Node) bool {
			if _, literal := n.(*ast.FuncLit); !more || literal && n != fn.Syntax() {
				return false
			}
			more = n == nil || yield(n)
			return more
		})
	}
}
