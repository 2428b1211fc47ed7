// Measures this library beside analytics-go 3 in one run: calls a second from eight goroutines, memory per call, and
// events a second that one process brings to an endpoint.
//
//	go run . [-events N] [-rounds N] [-batch N] [-endpoint URL -key KEY]
//
// Without an endpoint events go to a server in another process that reads them, counts them and does nothing else.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	hookline "github.com/hookline/hookline-go"
	analytics "github.com/segmentio/analytics-go/v3"
)

const (
	goroutines = 8
	accepted   = `{"success":true}`
)

// library is one of those measured: it makes a client, whose track must not lose an event, and whose end sends all.
type library struct {
	name string
	open func(endpoint, key string, queue int) (track func(number int), end func())
}

// figures of one run.
type figures struct{ calls, allocations, bytes, sent, cpu float64 }

func main() {
	events := flag.Int("events", 400_000, "events per run")
	rounds := flag.Int("rounds", 3, "runs of each; the medians are printed")
	endpoint := flag.String("endpoint", "", "a service to send to")
	key := flag.String("key", "wk_bench", "its write key")
	flag.IntVar(&batch, "batch", batch, "events per request")
	one := flag.String("one", "", "run one library in this process")
	sink := flag.Bool("sink", false, "be the server that does nothing")
	flag.Parse()
	switch {
	case *sink:
		serve()
	case *one != "":
		for _, each := range libraries {
			if each.name == *one {
				must(json.NewEncoder(os.Stdout).Encode(measured(each, *endpoint, *key, *events)))
			}
		}
	default:
		compare(*endpoint, *key, *events, *rounds)
	}
}

// MarshalJSON lets a run tell its figures to the process that started it.
func (f figures) MarshalJSON() ([]byte, error) {
	return json.Marshal([]float64{f.calls, f.allocations, f.bytes, f.sent, f.cpu})
}

func compare(endpoint, key string, events, rounds int) {
	if endpoint == "" {
		var stop func()
		endpoint, stop = startSink()
		defer stop()
	}
	fmt.Println("| library | calls/s | allocations/call | bytes/call | events/s sent | CPU µs/event |\n|---|---|---|---|---|---|")
	runs := map[string][][]float64{}
	for range rounds {
		for _, each := range libraries {
			count := events
			if each.name == "analytics-go 3" {
				count /= 4 // it takes its time
			}
			out, err := exec.Command(os.Args[0], "-one", each.name, "-endpoint", endpoint, "-key", key, "-events", fmt.Sprint(count), "-batch", fmt.Sprint(batch)).Output()
			must(err)
			var found []float64
			must(json.Unmarshal(out, &found))
			runs[each.name] = append(runs[each.name], found)
		}
	}
	for _, each := range libraries {
		middle := func(column int) float64 {
			var values []float64
			for _, run := range runs[each.name] {
				values = append(values, run[column])
			}
			slices.Sort(values)
			return values[len(values)/2]
		}
		fmt.Printf("| %s | %.0f | %.1f | %.0f | %.0f | %.2f |\n", each.name, middle(0), middle(1), middle(2), middle(3), middle(4))
	}
}

// batch is the number of events per request.
var batch = 100

var libraries = []library{
	{"hookline-go", func(endpoint, key string, queue int) (func(int), func()) {
		return ours(endpoint, key, queue, "", false)
	}},
	{"hookline-go, gzip", func(endpoint, key string, queue int) (func(int), func()) { return ours(endpoint, key, queue, "", true) }},
	{"hookline-go, spool", func(endpoint, key string, queue int) (func(int), func()) {
		folder, err := os.MkdirTemp(".", "spool-")
		must(err)
		track, end := ours(endpoint, key, queue, folder, false)
		return track, func() { end(); _ = os.RemoveAll(folder) }
	}},
	{"analytics-go 3", theirs},
}

func ours(endpoint, key string, queue int, spool string, zip bool) (func(int), func()) {
	options := hookline.Options{Endpoint: endpoint, MaxQueueSize: queue, MaxQueueBytes: 8 << 30, Spool: spool, SpoolBytes: 8 << 30, Gzip: zip, BatchSize: batch}
	if endpoint == "" {
		options.Transport = quick{}
	}
	client, err := hookline.NewWithOptions(key, options)
	must(err)
	return func(number int) {
			must(client.Track(&hookline.Track{UserId: "u1", Event: "Order Completed", Properties: properties(number)}))
		}, func() {
			for client.Flush().Waiting > 0 && endpoint != "" {
			}
			must(client.Close())
		}
}

func theirs(endpoint, key string, _ int) (func(int), func()) {
	config := analytics.Config{Endpoint: endpoint, Logger: analytics.StdLogger(log.New(io.Discard, "", 0)), BatchSize: batch}
	if endpoint == "" {
		config.Endpoint, config.Transport = "http://127.0.0.1:1", quick{}
	}
	client, err := analytics.NewWithConfig(key, config)
	must(err)
	return func(number int) {
			must(client.Enqueue(analytics.Track{UserId: "u1", Event: "Order Completed", Properties: properties(number)}))
		}, func() {
			must(client.Close())
		}
}

// orders are properties as shops track them, about 300 bytes with the rest of the event. They are made before, for making
// them is no cost of a library.
var orders = func() (made [1000]map[string]any) {
	for number := range made {
		made[number] = order(number)
	}
	return made
}()

func properties(number int) map[string]any { return orders[number%len(orders)] }

func order(number int) map[string]any {
	return map[string]any{
		"order_id": number, "total": 99.5, "currency": "EUR", "coupon": nil,
		"products": []any{
			map[string]any{"sku": "A-1", "price": 49.5, "quantity": 1},
			map[string]any{"sku": "B-2", "price": 25.0, "quantity": 2},
		},
	}
}

// measured runs one library: first calls alone, with a transport that does no work, then calls and sending.
func measured(of library, endpoint, key string, events int) figures {
	var f figures
	track, _ := of.open("", key, 2*events)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	took := inParallel(events, track)
	runtime.ReadMemStats(&after)
	f.calls = float64(events) / took.Seconds()
	f.allocations = float64(after.Mallocs-before.Mallocs) / float64(events)
	f.bytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(events)
	track, end := of.open(endpoint, key, 2*events)
	cpu, began := cpuTime(), time.Now()
	inParallel(events, track)
	end()
	f.sent = float64(events) / time.Since(began).Seconds()
	f.cpu = float64((cpuTime() - cpu).Microseconds()) / float64(events)
	return f
}

func inParallel(events int, do func(number int)) time.Duration {
	began := time.Now()
	var all sync.WaitGroup
	for g := range goroutines {
		all.Add(1)
		go func() {
			defer all.Done()
			for number := g; number < events; number += goroutines {
				do(number)
			}
		}()
	}
	all.Wait()
	return time.Since(began)
}

// quick is a service that answers at once.
type quick struct{}

func (quick) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(accepted)), Request: r}, nil
}

func startSink() (endpoint string, stop func()) {
	sink := exec.Command(os.Args[0], "-sink")
	out, err := sink.StdoutPipe()
	must(err)
	must(sink.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	must(err)
	return "http://" + line[:len(line)-1], func() {
		_ = sink.Process.Kill()
		_ = sink.Wait()
	}
}

func serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	fmt.Println(listener.Addr())
	must(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, accepted)
	})))
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
