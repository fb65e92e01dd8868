package interop

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"

	hellopb "google.golang.org/grpc/examples/helloworld/helloworld"
	routepb "google.golang.org/grpc/examples/route_guide/routeguide"
)

// TestExamples runs the generated stubs of grpc-go's helloworld and route_guide
// examples. A greeter or a route guide moves to Tarn by two lines: where its
// server is made and where its client is (here: makeTarn for makeGRPC and
// dialTarn for dialGRPC).
func TestExamples(t *testing.T) {
	for _, sec := range securities(t) {
		for _, p := range pairings() {
			t.Run(sec.name+"/"+p.name, func(t *testing.T) {
				s := p.make(t, sec)
				hellopb.RegisterGreeterServer(s, &greeter{})
				routepb.RegisterRouteGuideServer(s, &guide{notes: map[string][]*routepb.RouteNote{}})
				cc := p.dial(t, serve(t, s), sec)
				t.Run("helloworld", func(t *testing.T) { helloWorld(testContext(t), t, hellopb.NewGreeterClient(cc)) })
				t.Run("route_guide", func(t *testing.T) { routeGuide(testContext(t), t, routepb.NewRouteGuideClient(cc)) })
			})
		}
	}
}

// greeter is the server of the helloworld example.
type greeter struct {
	hellopb.UnimplementedGreeterServer
}

func (*greeter) SayHello(_ context.Context, in *hellopb.HelloRequest) (*hellopb.HelloReply, error) {
	return &hellopb.HelloReply{Message: "Hello " + in.GetName()}, nil
}

func helloWorld(ctx context.Context, t *testing.T, c hellopb.GreeterClient) {
	r, err := c.SayHello(ctx, &hellopb.HelloRequest{Name: "world"})
	if err != nil || r.GetMessage() != "Hello world" {
		t.Fatal(r, err)
	}
}

// guide is the server of the route_guide example: every point is a feature named by its
// coordinates.
type guide struct {
	routepb.UnimplementedRouteGuideServer
	mu    sync.Mutex
	notes map[string][]*routepb.RouteNote
}

func name(p *routepb.Point) string { return fmt.Sprintf("%d %d", p.GetLatitude(), p.GetLongitude()) }

func (g *guide) GetFeature(_ context.Context, p *routepb.Point) (*routepb.Feature, error) {
	return &routepb.Feature{Name: name(p), Location: p}, nil
}

func (g *guide) ListFeatures(r *routepb.Rectangle, s routepb.RouteGuide_ListFeaturesServer) error {
	for lat := r.Lo.Latitude; lat <= r.Hi.Latitude; lat++ {
		p := &routepb.Point{Latitude: lat, Longitude: r.Lo.Longitude}
		if err := s.Send(&routepb.Feature{Name: name(p), Location: p}); err != nil {
			return err
		}
	}
	return nil
}

func (g *guide) RecordRoute(s routepb.RouteGuide_RecordRouteServer) error {
	var n int32
	for {
		_, err := s.Recv()
		if err == io.EOF {
			return s.SendAndClose(&routepb.RouteSummary{PointCount: n})
		}
		if err != nil {
			return err
		}
		n++
	}
}

func (g *guide) RouteChat(s routepb.RouteGuide_RouteChatServer) error {
	for {
		in, err := s.Recv()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		g.mu.Lock()
		g.notes[name(in.Location)] = append(g.notes[name(in.Location)], in)
		notes := append([]*routepb.RouteNote(nil), g.notes[name(in.Location)]...)
		g.mu.Unlock()
		for _, n := range notes {
			if err := s.Send(n); err != nil {
				return err
			}
		}
	}
}

func routeGuide(ctx context.Context, t *testing.T, c routepb.RouteGuideClient) {
	p := &routepb.Point{Latitude: 409146138, Longitude: -746188906}
	if f, err := c.GetFeature(ctx, p); err != nil || f.GetName() != name(p) {
		t.Fatal(f, err)
	}
	list, err := c.ListFeatures(ctx, &routepb.Rectangle{Lo: &routepb.Point{Latitude: 1}, Hi: &routepb.Point{Latitude: 50}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for ; ; n++ {
		if _, err = list.Recv(); err != nil {
			break
		}
	}
	if err != io.EOF || n != 50 {
		t.Fatal(n, err)
	}
	record, err := c.RecordRoute(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		if err := record.Send(p); err != nil {
			t.Fatal(err)
		}
	}
	if sum, err := record.CloseAndRecv(); err != nil || sum.GetPointCount() != 20 {
		t.Fatal(sum, err)
	}
	chat, err := c.RouteChat(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := chat.Send(&routepb.RouteNote{Location: p, Message: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
		for range i + 1 {
			if _, err := chat.Recv(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := chat.CloseSend(); err != nil {
		t.Fatal(err)
	}
	if _, err := chat.Recv(); err != io.EOF {
		t.Fatal(err)
	}
}
