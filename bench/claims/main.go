// Command claims computes the figures of the documentation from results/*.txt and results/http.json, and writes the
// tables of docs/performance.md from them, so that every figure there was printed by a benchmark.
//
//	go run ./claims                              print the tables
//	go run ./claims -w ../docs/performance.md    put them into the page, between its markers
//	go run ./claims -w ../README.md              the same, and draw the chart that it shows
//	go run ./claims -w ../docs/h2.md             the same, with what attacks cost
//	go run ./claims -w ../docs/h2http.md         the same, with the figures of "tarn bench http"
//	go run ./claims -w ../docs/rpc.md            the same, with servers beside connect-go
//	go run ./claims -w ../docs/migrate-grpc.md   the same, with libraries over the stock ClientConn and over rpc
//	go run ./claims -before DIR                  name what is slower than in DIR; exit status 3 if anything is
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	page := flag.String("w", "", "put the tables into `file`, between its markers")
	dir := flag.String("results", "results", "`directory` of the raw results")
	before := flag.String("before", "", "compare the results with those of another `directory`")
	flag.Parse()
	os.Exit(status(*dir, *page, *before))
}

func status(dir, page, before string) int {
	if before == "" {
		if err := run(dir, page); err != nil {
			fmt.Fprintln(os.Stderr, "claims:", err)
			return 1
		}
		return 0
	}
	slow, err := check(before, dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "claims:", err)
		return 1
	}
	if len(slow) > 0 {
		return 3
	}
	return 0
}

// check prints what is slower in now than in before, and returns it.
func check(before, now string) ([]string, error) {
	old, err := readAll(before)
	if err != nil {
		return nil, err
	}
	res, err := readAll(now)
	if err != nil {
		return nil, err
	}
	for _, line := range doubts(old, res) {
		fmt.Println("doubtful:", line)
	}
	slow, compared := compare(old, res)
	for _, line := range slow {
		fmt.Println("slower:", line)
	}
	fmt.Printf("%d ratios compared, %d slower\n", compared, len(slow))
	return slow, nil
}

// readAll reads all results of a directory.
func readAll(dir string) (*results, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	res := new(results)
	for _, f := range files {
		if err := res.read(f); err != nil {
			return nil, err
		}
	}
	if len(res.values) == 0 {
		return nil, fmt.Errorf("no results under %s; run.sh makes them", dir)
	}
	return res, nil
}

// readFile reads the results of one file below dir. Of a missing file there are none.
func readFile(dir string, name ...string) (*results, error) {
	res := new(results)
	return res, res.readFrom(append([]string{dir}, name...)...)
}

// readFrom adds the results of a file, given by the parts of its path, unless it is missing.
func (r *results) readFrom(path ...string) error {
	file := filepath.Join(path...)
	if _, err := os.Stat(file); os.IsNotExist(err) {
		return nil
	}
	return r.read(file)
}

// allTables are the tables by their names. res are the results of the benchmarks in dir.
func allTables(dir string, res *results) (map[string]string, error) {
	http, err := readHTTP(filepath.Join(dir, "http.json"))
	if err != nil {
		return nil, err
	}
	calls, err := readFile(dir, "calls", "smb.txt")
	if err != nil {
		return nil, err
	}
	least, err := readFile(dir, "calls", "least.txt")
	if err != nil {
		return nil, err
	}
	web, err := readFile(dir, "web.txt")
	if err != nil {
		return nil, err
	}
	libraries := new(results)
	for _, name := range []string{"etcd.txt", "bigtable.txt", "others.txt"} {
		if err := libraries.readFrom(dir, "libraries", name); err != nil {
			return nil, err
		}
	}
	rclone, err := readFile(dir, "rclone", "copy.txt")
	if err != nil {
		return nil, err
	}
	tables := map[string]string{
		"libraries": libraryTable(libraries), "libraries-when": libraries.machine(),
		"rclone": rcloneTable(rclone), "rclone-when": rclone.machine(),
		"smb-calls": callTable(calls), "smb-calls-when": calls.machine(),
		"smb-least": leastTable(least), "smb-least-when": least.machine(),
		"web": webTable(web), "web-when": web.machine(), "http-targets": http.verdicts(),
		"attacks-when": res.when("attack"), "smb-when": res.when("samba", "script", "files"),
		"http": http.table(), "http-first": http.first(),
		"machine": res.machine(), "losses": lossTable(res),
		"attacks": attackVerdict(res), "attack-memory": attackTable(res, "peak-MB"), "attack-time": attackTable(res, "cpu-ms"),
		"bars": barTable(res, bars()), "first": firstTable(res), "floors": floorTable(res, ""), "bars-neutral": barTable(res, about("Neutral/", bars())), "floors-neutral": floorTable(res, "Neutral/"), "bars-smb": barTable(res, smbBars()), "bars-http": barTable(res, httpBars()),
	}
	for _, t := range valueTables() {
		tables[t.name] = t.markdown(res)
	}
	return tables, nil
}

func run(dir, page string) error {
	res, err := readAll(dir)
	if err != nil {
		return err
	}
	tables, err := allTables(dir, res)
	if err != nil {
		return err
	}
	if page == "" {
		for _, name := range []string{"machine", "bars", "bars-smb", "floors", "losses", "http", "web", "attacks", "attack-memory", "attack-time"} {
			fmt.Printf("%s\n", tables[name])
		}
		for _, t := range valueTables() {
			fmt.Printf("%s\n%s\n", t.name, tables[t.name])
		}
		return nil
	}
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	out, err := fill(string(text), tables)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	if err := os.WriteFile(page, []byte(out), 0o644); err != nil || !strings.Contains(out, chartFile) {
		return err
	}
	for _, l := range layouts() {
		if err := os.WriteFile(filepath.Join(filepath.Dir(page), l.file), []byte(firstChart(res, l)), 0o644); err != nil {
			return err
		}
	}
	return nil
}

var marker = regexp.MustCompile(`(?m)^<!-- ([a-z0-9-]+) -->$`)

// fill puts the tables that a page has markers for between its lines "<!-- NAME -->" and
// "<!-- end -->".
func fill(text string, tables map[string]string) (string, error) {
	places := 0
	for name, table := range tables {
		begin := "<!-- " + name + " -->\n"
		before, rest, ok := strings.Cut(text, begin)
		if !ok {
			continue
		}
		places++
		_, after, ok := strings.Cut(rest, "<!-- end -->")
		if !ok {
			return "", fmt.Errorf("marker %q has no end", strings.TrimSpace(begin))
		}
		text = before + begin + table + "<!-- end -->" + after
	}
	for _, m := range marker.FindAllStringSubmatch(text, -1) {
		if _, ok := tables[m[1]]; !ok && m[1] != "end" {
			return "", fmt.Errorf("there is no table %q", m[1])
		}
	}
	if places == 0 {
		return "", fmt.Errorf("it has no marker such as <!-- bars -->")
	}
	return text, nil
}
