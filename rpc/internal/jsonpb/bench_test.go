package jsonpb

import (
	"fmt"
	"testing"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/rpc/internal/testpb"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func simple(n int) *pb.SimpleRequest {
	return &pb.SimpleRequest{ResponseSize: 100, Payload: &pb.Payload{Body: make([]byte, n)}}
}

func order() *testpb.Order {
	note := "leave it at the door, \"please\""
	o := &testpb.Order{Id: "ord-2026-000123", CustomerId: "cus_8812", CreatedMs: 1764200000123, Status: testpb.Order_STATUS_OPEN,
		ShipTo: &testpb.Order_Address{Name: "Café du Port", Street: "12 Long Street", City: "Utrecht", PostalCode: "3511 AB", Country: "NL"},
		Labels: map[string]string{"channel": "web", "campaign": "autumn", "region": "eu-west-1"},
		Due:    &timestamppb.Timestamp{Seconds: 1764200000, Nanos: 123e6}, Note: &note, Total: 1234.5, Gift: true, Tags: []string{"new", "express"},
		Payment: &testpb.Order_CardToken{CardToken: "tok_1234567890"}}
	for i := range 10 {
		o.Items = append(o.Items, &testpb.Order_Item{Sku: fmt.Sprint("SKU-", i), Title: "A thing of some length, blue", Quantity: int32(i + 1), UnitPrice: 9.99 + float64(i), StockId: 1 << 40, Backordered: i%2 == 0,
			Attributes: []*testpb.Order_Attribute{{Key: "colour", Value: "blue"}, {Key: "size", Value: "XL"}}})
	}
	return o
}

func cases() map[string]proto.Message {
	return map[string]proto.Message{"small": simple(100), "medium": order(), "large": simple(64 << 10)}
}

func BenchmarkMarshal(b *testing.B) {
	pool := tarn.Shared()
	for name, m := range cases() {
		b.Run("size="+name+"/peer=tarn", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				buf, err := Marshal(pool, 14, m)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(buf.Len() - 14))
				buf.Free()
			}
		})
		b.Run("size="+name+"/peer=protojson", func(b *testing.B) {
			b.ReportAllocs()
			dst := make([]byte, 0, 1<<20)
			for b.Loop() {
				text, err := protojson.MarshalOptions{}.MarshalAppend(dst, m)
				if err != nil {
					b.Fatal(err)
				}
				b.SetBytes(int64(len(text)))
			}
		})
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	pool := tarn.Shared()
	for name, m := range cases() {
		text, err := protojson.Marshal(m)
		if err != nil {
			b.Fatal(err)
		}
		into := m.ProtoReflect().New().Interface()
		b.Run("size="+name+"/peer=tarn", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := Unmarshal(pool, text, into); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("size="+name+"/peer=protojson", func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, into); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
