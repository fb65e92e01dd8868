package code

import "golang.org/x/tools/go/ssa"

// Loops reports for each block of a function, by its index, whether a path can come to it again.
func Loops(fn *ssa.Function) []bool {
	// Tarjan's algorithm: blocks that reach each other have the same lowest number.
	loops := make([]bool, len(fn.Blocks))
	number := make([]int, len(fn.Blocks))
	lowest := make([]int, len(fn.Blocks))
	pending := make([]bool, len(fn.Blocks))
	var stack []*ssa.BasicBlock
	count := 0
	var visit func(b *ssa.BasicBlock)
	visit = func(b *ssa.BasicBlock) {
		i := b.Index
		count++
		number[i], lowest[i], pending[i] = count, count, true
		stack = append(stack, b)
		for _, succ := range b.Succs {
			switch j := succ.Index; {
			case number[j] == 0:
				visit(succ)
				lowest[i] = min(lowest[i], lowest[j])
			case pending[j]:
				lowest[i] = min(lowest[i], number[j])
				loops[i] = loops[i] || i == j
			}
		}
		if lowest[i] != number[i] {
			return
		}
		several := stack[len(stack)-1] != b
		for {
			last := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			pending[last.Index] = false
			loops[last.Index] = loops[last.Index] || several
			if last == b {
				return
			}
		}
	}
	for _, b := range fn.Blocks {
		if number[b.Index] == 0 {
			visit(b)
		}
	}
	return loops
}
