package main

import (
	"encoding/binary"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tarn-go/tarn/internal/child"
	"github.com/tarn-go/tarn/internal/freeport"
	"github.com/tarn-go/tarn/internal/selfsigned"
)

// spansOfBatch is how many spans a request has.
const spansOfBatch = 1000

// collectorWork is a way of sending batches: the receiver's protocol, and h2load's request.
type collectorWork struct {
	name, protocol, path, content string
	body                          []byte
}

func collectorWorks() []collectorWork {
	b := batch()
	framed := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)
	return []collectorWork{
		{"gRPC", "grpc", "/opentelemetry.proto.collector.trace.v1.TraceService/Export", "application/grpc", framed},
		{"HTTP", "http", "/v1/traces", "application/x-protobuf", b},
	}
}

type collectorCell struct{ processor, rate, memory figures }

func measureCollector(dir string, turns, batches int, profiles profiler) error {
	work, err := os.MkdirTemp("", "programs-collector")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	cert, err := selfsigned.New()
	if err != nil {
		return err
	}
	certFile, keyFile, err := selfsigned.WriteFiles(work, cert)
	if err != nil {
		return err
	}
	cells := map[string]*collectorCell{}
	for turn, profiles := range profiles.turns(turns) {
		for _, w := range collectorWorks() {
			sides := []string{"stock", "moved"}
			if turn%2 == 1 {
				sides[0], sides[1] = sides[1], sides[0]
			}
			if cells[w.name] == nil {
				cells[w.name] = new(collectorCell)
			}
			body := filepath.Join(work, w.protocol)
			if err := os.WriteFile(body, w.body, 0o600); err != nil {
				return err
			}
			for _, side := range sides {
				log.Printf("turn %d: %s, %s", turn+1, w.name, side)
				if err := w.measure(filepath.Join(dir, side, "collector"), side, certFile, keyFile, body, batches, cells[w.name], profiles); err != nil {
					return fmt.Errorf("%s, %s: %w", side, w.name, err)
				}
			}
		}
	}
	printHead(turns)
	fmt.Print("| batches of 1,000 spans, TLS | | stock | moved | ratio |\n|---|---|---:|---:|---:|\n")
	for _, w := range collectorWorks() {
		c := cells[w.name]
		fmt.Printf("| OTLP/%s, %d bytes | processor time a million spans, s | %s |\n| | batches a second | %s |\n| | memory, MB | %s |\n",
			w.name, len(w.body), c.processor.row("%.2f"), c.rate.row("%.0f"), c.memory.row("%.0f"))
	}
	return nil
}

// measure starts a receiver and sends it batches, over 4 connections with 4 streams each.
func (w collectorWork) measure(program, side, certFile, keyFile, body string, batches int, to *collectorCell, profiles profiler) error {
	port, err := freeport.Reserve()
	if err != nil {
		return err
	}
	defer port.Release()
	debug, err := freeport.Reserve()
	if err != nil {
		return err
	}
	defer debug.Release()
	cmd := exec.Command(program, w.protocol, port.Addr(), certFile, keyFile, debug.Addr())
	p, err := child.Start(cmd)
	if err != nil {
		return err
	}
	defer p.Kill()
	send := func(n int) (string, error) {
		out, err := exec.Command("h2load", "-n", strconv.Itoa(n), "-c", "4", "-m", "4", "-w", "24", "-W", "26", "-d", body,
			"-H", "content-type: "+w.content, "-H", "te: trailers", "https://"+port.Addr()+w.path).CombinedOutput()
		if err == nil && !strings.Contains(string(out), fmt.Sprintf("status codes: %d 2xx", n)) {
			err = fmt.Errorf("not every batch was taken")
		}
		if err != nil {
			return "", fmt.Errorf("h2load: %w: %s", err, out)
		}
		return string(out), nil
	}
	if _, err := send(max(batches/10, 16)); err != nil { // to warm up
		return err
	}
	before, err := used(cmd.Process.Pid)
	if err != nil {
		return err
	}
	var out string
	if err := profiles.during(func() (err error) { out, err = send(batches); return err }, debug.Addr(), w.protocol+"-"+side); err != nil {
		return err
	}
	if profiles.writes() {
		return nil
	}
	after, err := used(cmd.Process.Pid)
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(out, "finished in ")
	_, rest, _ = strings.Cut(rest, ", ")
	text, _, _ := strings.Cut(rest, " req/s")
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("h2load: %s", out)
	}
	to.rate.add(side, rate)
	to.processor.add(side, (after.processor-before.processor).Seconds()*1e6/float64(batches*spansOfBatch))
	to.memory.add(side, after.resident)
	return nil
}

// batch is a request of OTLP with spans of one service, each with six attributes.
func batch() []byte {
	text := func(key, value string) []byte {
		return append(field(1, []byte(key)), field(2, field(1, []byte(value)))...)
	}
	scope := field(1, field(1, []byte("bench")))
	for i := range spansOfBatch {
		id := binary.BigEndian.AppendUint64(nil, uint64(i)+1)
		s := field(1, append(id, id...))
		s = append(s, field(2, id)...)
		s = append(s, field(4, binary.BigEndian.AppendUint64(nil, 1))...)
		s = append(s, field(5, []byte("GET /users/{id}"))...)
		s = protowire.AppendVarint(protowire.AppendTag(s, 6, protowire.VarintType), 2)
		s = protowire.AppendFixed64(protowire.AppendTag(s, 7, protowire.Fixed64Type), 1_795_900_000_000_000_000+uint64(i))
		s = protowire.AppendFixed64(protowire.AppendTag(s, 8, protowire.Fixed64Type), 1_795_900_000_002_000_000+uint64(i))
		for _, a := range [][2]string{{"http.request.method", "GET"}, {"http.route", "/users/{id}"}, {"url.path", fmt.Sprint("/users/", i)},
			{"http.response.status_code", "200"}, {"server.address", "users.example.com"}, {"client.address", "192.0.2.7"}} {
			s = append(s, field(9, text(a[0], a[1]))...)
		}
		scope = append(scope, field(2, s)...)
	}
	resource := field(1, field(1, text("service.name", "users")))
	return field(1, append(resource, field(2, scope)...))
}

// field is a field of bytes, text or a message.
func field(number protowire.Number, content []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), content)
}
