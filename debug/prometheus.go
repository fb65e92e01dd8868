package debug

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/debug/internal/metrics"
)

// prometheusType is the content type of the text exposition format, version 0.0.4.
const prometheusType = "text/plain; version=0.0.4; charset=utf-8"

// prometheusText writes s in the text exposition format. Classes never asked for are left out.
func prometheusText(s *Snapshot) []byte {
	var out bytes.Buffer
	for _, m := range metrics.Pool() {
		header(&out, m.Name, m.Help, m.Kind)
		for i := range s.Pools {
			sample(&out, m.Name, labels("pool", s.Pools[i].Name), m.Value(s.Pools[i].stats))
		}
	}
	const unseen = "tarn_pool_pinned_unseen_bytes"
	header(&out, unseen, "Estimated bytes in use beyond what was asked for.", metrics.Gauge)
	for i := range s.Pools {
		sample(&out, unseen, labels("pool", s.Pools[i].Name), float64(s.Pools[i].Pinned))
	}
	for _, m := range metrics.Classes() {
		header(&out, m.Name, m.Help, m.Kind)
		for i := range s.Pools {
			for _, c := range s.Pools[i].stats.Classes {
				if metrics.Used(c) {
					sample(&out, m.Name, labels("pool", s.Pools[i].Name, "class", metrics.Label(c.Size)), m.Value(c))
				}
			}
		}
	}
	requestSizes(&out, s)
	return out.Bytes()
}

// requestSizes writes the recorded sizes as a histogram with one bucket a doubling.
func requestSizes(out *bytes.Buffer, s *Snapshot) {
	const name = "tarn_pool_requested_size_bytes"
	out.WriteString("# HELP " + name + " Sizes asked for, estimated from samples.\n# TYPE " + name + " histogram\n")
	for i := range s.Pools {
		p := &s.Pools[i]
		if p.Histogram == nil {
			continue
		}
		sum, total, next := 0.0, uint64(0), 0
		for edge := 64; edge <= tarn.MaxClassSize; edge *= 2 {
			for ; next < len(p.Histogram.Sizes) && p.Histogram.Sizes[next].Size <= edge; next++ {
				total += p.Histogram.Sizes[next].Count
			}
			sample(out, name+"_bucket", labels("pool", p.Name, "le", strconv.Itoa(edge)), float64(total))
		}
		total = 0
		for _, size := range p.Histogram.Sizes {
			total += size.Count
			sum += float64(size.Count) * float64(size.Size)
		}
		sample(out, name+"_bucket", labels("pool", p.Name, "le", "+Inf"), float64(total))
		sample(out, name+"_sum", labels("pool", p.Name), sum)
		sample(out, name+"_count", labels("pool", p.Name), float64(total))
	}
}

func header(out *bytes.Buffer, name, help string, kind metrics.Kind) {
	typ := "gauge"
	if kind == metrics.Counter {
		typ = "counter"
	}
	out.WriteString("# HELP " + name + " " + help + "\n# TYPE " + name + " " + typ + "\n")
}

// labels writes pairs of a label's name and value.
func labels(pairs ...string) string {
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(pairs[i] + `="` + escape.Replace(strings.ToValidUTF8(pairs[i+1], "\uFFFD")) + `"`)
	}
	return b.String()
}

func sample(out *bytes.Buffer, name, labels string, v float64) {
	out.WriteString(name + "{" + labels + "} " + strconv.FormatFloat(v, 'g', -1, 64) + "\n")
}
