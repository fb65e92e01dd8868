package viewpb_test

import (
	"fmt"
	"testing"

	"github.com/tarn-go/tarn/rpc/internal/testpb"
	"github.com/tarn-go/tarn/rpc/internal/viewpb"
	"google.golang.org/protobuf/proto"
)

// BenchmarkOrder decodes an order of 100 items with four attributes each, and a map.
func BenchmarkOrder(b *testing.B) {
	in := &testpb.Order{Labels: map[string]string{}}
	for i := range 100 {
		item := &testpb.Order_Item{Sku: fmt.Sprintf("sku-%08d", i), Title: "a title of some length", Quantity: 3, UnitPrice: 1.5}
		for k := range 4 {
			item.Attributes = append(item.Attributes, &testpb.Order_Attribute{Key: fmt.Sprint("attribute", k), Value: "value"})
		}
		in.Items = append(in.Items, item)
		in.Labels[item.Sku] = "label"
	}
	data, err := proto.Marshal(in)
	if err != nil {
		b.Fatal(err)
	}
	for name, decode := range map[string]func(m *testpb.Order) bool{
		"viewpb":      func(m *testpb.Order) bool { return viewpb.Unmarshal(data, m, nil) },
		"protobuf-go": func(m *testpb.Order) bool { return proto.Unmarshal(data, m) == nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			b.ReportAllocs()
			for b.Loop() {
				if !decode(new(testpb.Order)) {
					b.Fatal("not decoded")
				}
			}
		})
	}
}
