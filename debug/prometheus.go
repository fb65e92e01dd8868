package debug

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/tarn-go/tarn/debug/internal/metrics"
)

// prometheusType is the content type of the text exposition format, version 0.0.4.
const prometheusType = "text/plain; version=0.0.4; charset=utf-8"

// prometheusText writes s in the text exposition format, with the metrics of classes that are given.
// Classes never asked for are left out.
func prometheusText(s *Snapshot, ofClasses []metrics.ClassMetric) []byte {
	var out bytes.Buffer
	for _, m := range metrics.Pool() {
		header(&out, m.Name, m.Help, m.Kind)
		for i := range s.Pools {
			sample(&out, m.Name, labels("pool", s.Pools[i].Name), m.Value(s.Pools[i].stats))
		}
	}
	header(&out, metrics.PinnedName, metrics.PinnedHelp, metrics.Gauge)
	for i := range s.Pools {
		sample(&out, metrics.PinnedName, labels("pool", s.Pools[i].Name), float64(s.Pools[i].Pinned))
	}
	for _, m := range ofClasses {
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
	endpoints(&out, s)
	return out.Bytes()
}

// endpoints writes the families of servers and clients, if there are any.
func endpoints(out *bytes.Buffer, s *Snapshot) {
	if len(s.Endpoints) == 0 {
		return
	}
	for _, m := range metrics.Endpoint() {
		header(out, m.Name, m.Help, m.Kind)
		for _, e := range s.Endpoints {
			for _, p := range m.Values(e) {
				pairs := []string{"endpoint", e.Name}
				for i, l := range m.Labels {
					pairs = append(pairs, l, p.Labels[i])
				}
				sample(out, m.Name, labels(pairs...), p.Value)
			}
		}
	}
	out.WriteString("# HELP " + metrics.DurationsName + " " + metrics.DurationsHelp + "\n# TYPE " + metrics.DurationsName + " histogram\n")
	for _, e := range s.Endpoints {
		for _, m := range e.Methods {
			if d, ok := metrics.DurationsOf(m); ok {
				durations(out, d, "endpoint", e.Name, "method", m.Name)
			}
		}
	}
}

// durations writes what the calls of a method took.
func durations(out *bytes.Buffer, d metrics.Durations, pairs ...string) {
	const name = metrics.DurationsName
	of := labels(pairs...)
	for _, b := range d.Buckets {
		sample(out, name+"_bucket", of+`,le="`+strconv.FormatFloat(b.Seconds, 'g', -1, 64)+`"`, float64(b.Count))
	}
	sample(out, name+"_bucket", of+`,le="+Inf"`, float64(d.Count))
	sample(out, name+"_sum", of, d.Sum)
	sample(out, name+"_count", of, float64(d.Count))
}

// requestSizes writes the recorded sizes as a histogram with one bucket a doubling.
func requestSizes(out *bytes.Buffer, s *Snapshot) {
	const name = metrics.SizesName
	out.WriteString("# HELP " + name + " " + metrics.SizesHelp + "\n# TYPE " + name + " histogram\n")
	for i := range s.Pools {
		p := &s.Pools[i]
		if p.Histogram == nil {
			continue
		}
		sizes := metrics.SizesOf(*p.Histogram)
		for _, b := range sizes.Buckets {
			sample(out, name+"_bucket", labels("pool", p.Name, "le", strconv.Itoa(b.UpTo)), float64(b.Count))
		}
		sample(out, name+"_bucket", labels("pool", p.Name, "le", "+Inf"), float64(sizes.Count))
		sample(out, name+"_sum", labels("pool", p.Name), sizes.Sum)
		sample(out, name+"_count", labels("pool", p.Name), float64(sizes.Count))
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
