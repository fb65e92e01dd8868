//go:build amd64 && !race && !tarn_safe

#include "textflag.h"

// func Release(w *atomic.Uint64, v uint64)
TEXT ·Release(SB), NOSPLIT, $0-16
	MOVQ w+0(FP), AX
	MOVQ v+8(FP), BX
	MOVQ BX, (AX)
	RET
