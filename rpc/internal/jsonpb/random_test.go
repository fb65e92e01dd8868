package jsonpb

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/tarntest"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// TestRandom writes random messages, reads them, and reads what random edits have made of their text.
func TestRandom(t *testing.T) {
	turns := 20
	if os.Getenv("TARN_LONG") != "" {
		turns = 2_000
	}
	for _, mt := range types(t) {
		pool := tarntest.NewPool(t)
		r := rand.New(rand.NewPCG(1, 2))
		for range turns {
			randomly(t, pool, mt, r)
		}
	}
}

// FuzzRandom is TestRandom with the random numbers of the fuzzer.
func FuzzRandom(f *testing.F) {
	all := types(f)
	for i := range all {
		f.Add(uint8(i), uint64(i))
	}
	f.Fuzz(func(t *testing.T, n uint8, seed uint64) {
		randomly(t, tarntest.NewPool(t), all[int(n)%len(all)], rand.New(rand.NewPCG(seed, 0)))
	})
}

func randomly(t *testing.T, pool *tarn.Pool, mt protoreflect.MessageType, r *rand.Rand) {
	m := mt.New()
	fill(m, r, 4)
	_, text := writeBoth(t, pool, m.Interface())
	if text == nil {
		return
	}
	readBoth(t, pool, mt, text)
	for range 8 {
		text = edit(text, r)
		if _, edited := readBoth(t, pool, mt, text); edited != nil {
			writeBoth(t, pool, edited)
		}
	}
}

// fill sets random fields of m, to depth levels.
func fill(m protoreflect.Message, r *rand.Rand, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if r.IntN(2) == 0 || fd.Message() != nil && depth == 0 {
			continue
		}
		switch {
		case fd.IsList():
			for l := m.Mutable(fd).List(); r.IntN(3) > 0; {
				if fd.Message() != nil {
					fill(l.AppendMutable().Message(), r, depth-1)
				} else {
					l.Append(scalarOf(fd, r))
				}
			}
		case fd.IsMap():
			for entries := m.Mutable(fd).Map(); r.IntN(3) > 0; {
				k := scalarOf(fd.MapKey(), r).MapKey()
				if fd.MapValue().Message() != nil {
					fill(entries.Mutable(k).Message(), r, depth-1)
				} else {
					entries.Set(k, scalarOf(fd.MapValue(), r))
				}
			}
		case fd.Message() != nil:
			fill(m.Mutable(fd).Message(), r, depth-1)
		default:
			m.Set(fd, scalarOf(fd, r))
		}
	}
}

var (
	integers = []int64{0, 1, -1, 5, 100, 127, 128, 999999999, 1e9, -999999999, math.MaxInt32, math.MinInt32, math.MaxUint32, 1 << 53, 253402300799, -62135596800,
		315576000000, -315576000001, 1e18, math.MaxInt64, math.MinInt64}
	numbers = []float64{0, math.Copysign(0, -1), 1, -1.5, 0.1, 1e-6, 9.9e-7, 1e-9, 1e20, 1e21, 1e22, 123456789.125, math.MaxFloat32, math.SmallestNonzeroFloat32,
		math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1), math.Inf(-1), math.NaN()}
	texts = []string{"", "a", "text of some length", "\"quoted\"", `\`, "line\nline\r\t\b\f", "\x00\x1f\x7f", "é", "日本語", "😀", "\u2028", "</script>", "\xff", "\xc3", "\ufffd",
		"1234567", "12345678", strings.Repeat("long ", 40), strings.Repeat("é", 70), "a.b_c", "type.googleapis.com/tarn.jsonpb.test.Scalars"}
)

func scalarOf(fd protoreflect.FieldDescriptor, r *rand.Rand) protoreflect.Value {
	n := integers[r.IntN(len(integers))]
	if r.IntN(4) == 0 {
		n = int64(r.Uint64() >> r.IntN(64))
	}
	x := numbers[r.IntN(len(numbers))]
	if r.IntN(4) == 0 {
		x = math.Float64frombits(r.Uint64())
	}
	s := texts[r.IntN(len(texts))]
	if strings.Contains(s, "\xff") || s == "\xc3" {
		if r.IntN(8) > 0 {
			s = "valid"
		}
	}
	switch fd.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(n&1 == 0)
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(n)
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.FloatKind:
		return protoreflect.ValueOfFloat32(float32(x))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(x)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(s)
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(s))
	}
	values := fd.Enum().Values()
	if r.IntN(4) == 0 {
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n))
	}
	return protoreflect.ValueOfEnum(values.Get(r.IntN(values.Len())).Number())
}

// tokens are put into texts by edit.
var tokens = []string{`"`, `{`, `}`, `[`, `]`, `:`, `,`, ` `, "\n", "\t", `null`, `true`, `false`, `0`, `-`, `1`, `01`, `-0`, `1.0`, `1e2`, `1.`, `"1"`, `" 1"`, `"-0"`, `"01"`,
	`18446744073709551615`, `18446744073709551616`, `9223372036854775808`, `-9223372036854775809`, `29999999999999999999`, `4294967296`, `""5""`,
	`"NaN"`, `"Infinity"`, `"-Infinity"`, `NaN`, `"1.5"`, `1e400`, `3.5e38`, `"RED"`, `"CRIMSON"`, `"NOPE"`, `\`, `\n`, `\/`, `\u0061`, `\ud83d\ude00`, `\ud83d`, `\u00zz`, "\xff", "é", "\x00",
	`"YQ=="`, `"YQ"`, `"-_-_"`, `"YR=="`, `"Y\nQ="`, "\"YWJj\r\nYWJj\"", `"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05.1234567891Z"`, `"2026-01-02T03:04:05+01:00"`, `"2026-01-02t03:04:05z"`, `"2026-1-02T03:04:05,5Z"`,
	`"10000-01-02T03:04:05Z"`, `"0001-01-01T00:00:00+01:00"`, `"2026-01-02T24:00:00Z"`, `"1s"`, `"-1.5s"`, `"+1s"`, `"1.s"`, `".5s"`, `"01s"`, `"-0.0000000001s"`, `"315576000001s"`, `"315576000000.999999999s"`,
	`"unknown":1,`, `"unknown":{"a":[1,"x",null]},`, `"[tarn.jsonpb.test.extra]":"x",`, `"text":"twice",`, `"i32":null,`, `"double_one":1,`, `"doubleOne":"2",`, `{"a":1,"\u0061":2}`, `{"1":1,"01":1}`}

// edit returns text with a random change.
func edit(text []byte, r *rand.Rand) []byte {
	i := r.IntN(len(text) + 1)
	if r.IntN(2) == 0 { // at punctuation, where it is more likely to be valid
		if k := bytes.IndexAny(text[i:], ",:{}[]\""); k >= 0 {
			i += k + r.IntN(2)
		}
	}
	j := i
	switch r.IntN(4) {
	case 0: // replaces a value, or what there is up to some punctuation
		if k := bytes.IndexAny(text[i:], ",}]"); k >= 0 {
			j += k
		}
	case 1:
		j = min(len(text), i+r.IntN(4))
	case 2: // repeats a part
		k := min(len(text), i+r.IntN(40))
		return bytes.Join([][]byte{text[:k], text[i:]}, nil)
	}
	return bytes.Join([][]byte{text[:i], []byte(tokens[r.IntN(len(tokens))]), text[j:]}, nil)
}
