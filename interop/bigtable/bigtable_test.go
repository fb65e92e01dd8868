package bigtable

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/tarn-go/tarn"
	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/internal/cputime"
	"github.com/tarn-go/tarn/internal/turn"
	"github.com/tarn-go/tarn/rpc"
	"github.com/tarn-go/tarn/tarntest"
)

// emulatorEnv makes this test's binary an emulator.
const emulatorEnv = "TARN_BIGTABLE_EMULATOR"

// TestMain is also the emulator's process, which ends with its standard input.
func TestMain(m *testing.M) {
	if os.Getenv(emulatorEnv) == "" {
		os.Exit(m.Run())
	}
	s, err := bttest.NewServer("127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(s.Addr)
	_, _ = io.Copy(io.Discard, os.Stdin) // until the parent closes it or ends
}

// emulatorProcess starts an emulator in a process of its own and returns its address.
func emulatorProcess(b *testing.B) string {
	b.Helper()
	cmd, err := child.Self()
	if err != nil {
		b.Fatal(err)
	}
	cmd.Env = append(os.Environ(), emulatorEnv+"=1")
	p, err := child.Start(cmd)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := p.Close(); err != nil {
			b.Error(err)
		}
	})
	return p.Addr
}

// emulator is a Bigtable in this process, served by grpc-go.
func emulator(t testing.TB) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := lis.Addr().String()
	lis.Close()
	s, err := bttest.NewServer(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s.Addr
}

func checked(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	return over(t, addr, tarntest.NewPool(t))
}

func shared(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	return over(t, addr, tarn.Shared())
}

func over(t testing.TB, addr string, pool *tarn.Pool) *grpc.ClientConn {
	t.Helper()
	cc, err := rpc.NewClient(addr, rpc.WithPool(pool), rpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return rpc.AsGRPC(cc)
}

func stock(t testing.TB, addr string) *grpc.ClientConn {
	t.Helper()
	cc, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cc.Close() })
	return cc
}

const rows = 200

// table makes a table of rows of 100 bytes and opens it, all over conn.
func table(t testing.TB, conn *grpc.ClientConn) *bigtable.Table {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	admin, err := bigtable.NewAdminClient(ctx, "p", "i", option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.CreateTable(ctx, "t"); err != nil {
		t.Fatal(err)
	}
	if err := admin.CreateColumnFamily(ctx, "t", "f"); err != nil {
		t.Fatal(err)
	}
	client, err := bigtable.NewClientWithConfig(ctx, "p", "i", bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}}, option.WithGRPCConn(conn))
	if err != nil {
		t.Fatal(err)
	}
	tbl := client.Open("t")
	var keys []string
	var muts []*bigtable.Mutation
	for i := range rows {
		m := bigtable.NewMutation()
		m.Set("f", "c", bigtable.Now(), make([]byte, 100))
		keys, muts = append(keys, fmt.Sprintf("r%04d", i)), append(muts, m)
	}
	if errs, err := tbl.ApplyBulk(ctx, keys, muts); err != nil || errs != nil {
		t.Fatal(errs, err)
	}
	return tbl
}

// TestClient writes and reads rows over AsGRPC, which the library connects itself.
func TestClient(t *testing.T) {
	conn := checked(t, emulator(t))
	tbl := table(t, conn)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	n := 0
	if err := tbl.ReadRows(ctx, bigtable.InfiniteRange(""), func(bigtable.Row) bool { n++; return true }); err != nil || n != rows {
		t.Fatalf("%d rows, %v", n, err)
	}
	m := bigtable.NewMutation()
	m.Set("f", "c", bigtable.Now(), []byte("then"))
	cond := bigtable.NewCondMutation(bigtable.ValueFilter("nothing"), nil, m)
	if err := tbl.Apply(ctx, "r0000", cond); err != nil {
		t.Fatal(err)
	}
	r, err := tbl.ReadRow(ctx, "r0000", bigtable.RowFilter(bigtable.LatestNFilter(1)))
	if err != nil || string(r["f"][0].Value) != "then" {
		t.Fatalf("%v, %v", r, err)
	}
	if s := conn.GetState(); s != connectivity.Ready {
		t.Errorf("the state is %v", s)
	}
	if _, err := tbl.ReadRow(ctx, "r0000", bigtable.RowFilter(bigtable.FamilyFilter("["))); err == nil {
		t.Error("a bad filter was accepted")
	}
}

// BenchmarkReadRows reads 200 rows of 100 bytes with one call, over each. The emulator is in a separate process; allocations and cpu-us/op, processor time, are the client's.
func BenchmarkReadRows(b *testing.B) {
	bench(b, 4, func(ctx context.Context, tbl *bigtable.Table) error {
		n := 0
		err := tbl.ReadRows(ctx, bigtable.InfiniteRange(""), func(bigtable.Row) bool { n++; return true })
		if err == nil && n != rows {
			err = fmt.Errorf("%d rows", n)
		}
		return err
	})
}

// BenchmarkReadRow reads one row of 100 bytes, with four callers a processor.
func BenchmarkReadRow(b *testing.B) { bench(b, 4, readRow) }

// BenchmarkReadRowBusy is BenchmarkReadRow with 32 callers a processor.
func BenchmarkReadRowBusy(b *testing.B) { bench(b, 32, readRow) }

func readRow(ctx context.Context, tbl *bigtable.Table) error {
	_, err := tbl.ReadRow(ctx, "r0007")
	return err
}

// bench calls read over each transport, with that many callers a processor.
func bench(b *testing.B, callers int, read func(context.Context, *bigtable.Table) error) {
	type contestant struct {
		name string
		dial func(testing.TB, string) *grpc.ClientConn
	}
	for _, c := range turn.Order(contestant{"grpc", stock}, contestant{"tarn", shared}) {
		tbl := table(b, c.dial(b, emulatorProcess(b)))
		b.Run("peer="+c.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(callers)
			before := cputime.Used()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := read(context.Background(), tbl); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64((cputime.Used()-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}
