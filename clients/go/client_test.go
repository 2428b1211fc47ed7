package hookline

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What goes over the wire is what the service documents.
func TestRequest(t *testing.T) {
	s := newService(t)
	c := newClient(t, s, Options{})
	before := time.Now().Truncate(time.Millisecond)
	if err := c.Track(&Track{UserId: "u1", Event: "E", Properties: Properties{"n": 1}}); err != nil {
		t.Fatal(err)
	}
	if r := c.Flush(); !r.OK() || r.Accepted != 1 {
		t.Fatalf("%+v", r)
	}
	came := s.came()[0]
	equal(t, "path", came.path, "/v1/batch")
	equal(t, "key", came.header.Get("Authorization"), "Basic d2s6")
	equal(t, "type", came.header.Get("Content-Type"), "application/json")
	equal(t, "agent", came.header.Get("User-Agent"), "hookline-go/"+Version)
	equal(t, "hint for net/http", len(came.header.Values("Idempotency-Key")), 0)
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(came.body.SentAt) {
		t.Errorf("sentAt %s", came.body.SentAt)
	}
	event := came.body.Batch[0]
	when, err := time.Parse(time.RFC3339, event["timestamp"].(string))
	if err != nil || when.Before(before) || when.After(time.Now()) {
		t.Errorf("timestamp %v", event["timestamp"])
	}
	delete(event, "timestamp")
	if event["messageId"] == "" {
		t.Error("no messageId")
	}
	delete(event, "messageId")
	want := map[string]any{"type": "track", "userId": "u1", "event": "E", "properties": map[string]any{"n": 1.0},
		"context": map[string]any{"library": map[string]any{"name": "hookline-go", "version": Version}}}
	if !reflect.DeepEqual(event, want) {
		t.Errorf("got %v", event)
	}
}

// Every call carries its fields under the API's names, and a time that is given is not overwritten.
func TestCalls(t *testing.T) {
	s, under := newService(t), Integrations{"All": false}
	c := newClient(t, s, Options{DefaultContext: Context{"app": "shop", "ip": "default"}, DefaultIntegrations: under})
	c.Stats()            // which settles the options
	under["Late"] = true // the client's are not the program's
	const at = "2020-01-02T03:04:05.006Z"
	calls := []error{
		c.Identify(&Identify{UserId: "u", AnonymousId: "a", Traits: Traits{"t": 1}, Timestamp: at, MessageId: "i"}),
		c.Track(&Track{AnonymousId: "a", Event: "E", Timestamp: at, MessageId: "t", Context: Context{"ip": "own", "integrations": map[string]bool{"CRM": true}}}),
		c.Page(&Page{UserId: "u", Category: "C", Name: "N", Traits: Traits{"url": "x"}, Timestamp: at, MessageId: "p"}),
		c.Screen(&Screen{UserId: "u", Name: "N", Properties: Properties{"p": nil}, Timestamp: at, MessageId: "s", Integrations: Integrations{"All": true}}),
		c.Group(&Group{UserId: "u", GroupId: "g", Traits: Traits{}, Timestamp: at, MessageId: "g"}),
		c.Alias(&Alias{UserId: "u", PreviousId: "old", Timestamp: at, MessageId: "a"}),
	}
	if err := errors.Join(calls...); err != nil {
		t.Fatal(err)
	}
	equal(t, "accepted", c.Flush().Accepted, 6)
	rest := `"timestamp":"` + at + `","context":{"app":"shop","ip":"default","library":{"name":"hookline-go","version":"` + Version + `"}}`
	for i, text := range []string{
		`{"type":"identify","messageId":"i","userId":"u","anonymousId":"a","traits":{"t":1},"integrations":{"All":false},` + rest + `}`,
		`{"type":"track","messageId":"t","anonymousId":"a","event":"E","integrations":{"All":false,"CRM":true},` + strings.Replace(rest, "default", "own", 1) + `}`,
		`{"type":"page","messageId":"p","userId":"u","category":"C","name":"N","properties":{"url":"x"},"integrations":{"All":false},` + rest + `}`,
		`{"type":"screen","messageId":"s","userId":"u","name":"N","properties":{"p":null},"integrations":{"All":true},` + rest + `}`,
		`{"type":"group","messageId":"g","userId":"u","groupId":"g","traits":{},"integrations":{"All":false},` + rest + `}`,
		`{"type":"alias","messageId":"a","userId":"u","previousId":"old","integrations":{"All":false},` + rest + `}`,
	} {
		var want map[string]any
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		if got := s.events()[i]; !reflect.DeepEqual(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

// A mistake is the call's error, counted and told; nothing of it is sent.
func TestMistakes(t *testing.T) {
	s, h := newService(t), &told{}
	o := Options{}
	h.handlers(&o)
	c := newClient(t, s, o)
	var panics explosive
	for code, err := range map[string]error{
		"missing_user_id":     c.Track(&Track{Event: "E"}),
		"missing_event":       c.Track(&Track{UserId: "u"}),
		"missing_group_id":    c.Group(&Group{UserId: "u"}),
		"missing_previous_id": c.Alias(&Alias{UserId: "u"}),
		"missing_name":        c.Page(&Page{UserId: "u", Category: "C"}),
		"invalid_timestamp":   c.Identify(&Identify{UserId: "u", Timestamp: "now"}),
		"invalid_message_id":  c.Identify(&Identify{UserId: "u", MessageId: strings.Repeat("é", 513)}),
		"invalid_field":       c.Identify(&Identify{UserId: "u", Context: Context{"integrations": 1}}),
		"event_too_large":     c.Identify(&Identify{UserId: "u", Traits: Traits{"t": strings.Repeat("x", 32_768)}}),
		"internal_error":      c.Identify(&Identify{UserId: "u", Traits: Traits{"t": panics}}),
	} {
		if !errors.Is(err, &Error{Code: code}) {
			t.Errorf("%s: got %v", code, err)
		}
		if !strings.Contains(h.all(), code) {
			t.Errorf("%s was not told", code)
		}
	}
	equal(t, "invalid", c.Stats().Invalid, 10)
	equal(t, "ids of 512 characters", c.Identify(&Identify{UserId: "u", MessageId: strings.Repeat("é", 512)}), nil)
	equal(t, "accepted", c.Flush().Accepted, 1)
}

type explosive struct{}

func (explosive) MarshalJSON() ([]byte, error) { panic("no") }

// Batches leave by count, by time, and within the limits of a request, in the order of the calls.
func TestBatches(t *testing.T) {
	s := newService(t)
	c := New("wk")
	c.Endpoint, c.Size, c.FlushAt, c.FlushAfter = s.URL+"/v1/", 3, 9, 50*time.Millisecond
	defer c.Close()
	track(t, c, "a", "b", "c")
	waitUntil(t, "three by count", func() bool { return len(s.events()) == 3 })
	track(t, c, "d")
	waitUntil(t, "one by time", func() bool { return len(s.events()) == 4 })
	s.mu.Lock()
	s.hold = make(chan struct{})
	s.mu.Unlock()
	track(t, c, "e", "f", "g")
	waitUntil(t, "a request under way", func() bool { return len(s.came()) >= 3 })
	for i := range 40 {
		if err := c.Track(&Track{UserId: "u", Event: fmt.Sprint(i), Properties: Properties{"x": strings.Repeat("x", 30_000)}}); err != nil {
			t.Fatal(err)
		}
	}
	close(s.hold)
	c.Flush()
	for _, r := range s.came() {
		if len(r.raw) > batchBytesMax {
			t.Errorf("%d bytes", len(r.raw))
		}
	}
	want := []string{"a", "b", "c", "d", "e", "f", "g"}
	for i := range 40 {
		want = append(want, fmt.Sprint(i))
	}
	if got := s.names(); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// Faults, 408, 425, 429 and 5xx are tried again with the same messageIds, and reported once; everything else is final.
func TestRetries(t *testing.T) {
	s := newService(t, reply{reset: true}, reply{status: 503, body: `{"code":"busy","message":"Busy."}`}, reply{status: 429}, reply{status: 200, body: "<html>"})
	h, o := &told{}, Options{Gzip: true}
	h.handlers(&o)
	c := newClient(t, s, o)
	track(t, c, "a", "b")
	if r := c.Flush(); r.Accepted != 2 || !r.OK() {
		t.Fatalf("%+v", r)
	}
	equal(t, "requests", len(s.came()), 5)
	equal(t, "told", h.all(), "connection_failed")
	equal(t, "acknowledged", strings.Join(h.ids, " "), "a b")
	for _, status := range []int{400, 401, 403, 404, 501, 505} {
		s := newService(t, reply{status: status, body: `{"code":"unknown_write_key","message":"No."}`})
		c := newClient(t, s, Options{BatchSize: 1})
		track(t, c, "a")
		r := c.Flush()
		if r.GaveUp != 1 || len(r.Receipts) != 1 || r.Receipts[0] != (Receipt{"a", GaveUp, "unknown_write_key", "No."}) {
			t.Errorf("%d: %+v", status, r)
		}
		equal(t, "requests", len(s.came()), 1)
	}
}

// A connection that the service had closed while it was idle is no failure of the batch: it goes again at once, unseen.
func TestIdleConnection(t *testing.T) {
	s := newService(t, reply{status: 200, body: accepted}, reply{reset: true}, reply{status: 200, body: accepted})
	h, o := &told{}, Options{}
	h.handlers(&o)
	c := newClient(t, s, o)
	for _, name := range []string{"a", "b"} {
		track(t, c, name)
		equal(t, "accepted", c.Flush().Accepted, 1)
	}
	equal(t, "requests", len(s.came()), 3)
	s.CloseClientConnections()
	track(t, c, "c")
	equal(t, "accepted", c.Flush().Accepted, 1)
	equal(t, "told", h.all(), "")
}

// Retry-After is kept, also while somebody waits in a flush; the retry budget ends in a receipt.
func TestRetryAfter(t *testing.T) {
	s := newService(t, reply{status: 429, retryAfter: "1"})
	c := newClient(t, s, Options{})
	track(t, c, "a")
	equal(t, "accepted", c.Flush().Accepted, 1)
	if came := s.came(); came[1].at.Sub(came[0].at) < time.Second {
		t.Errorf("came back after %v", came[1].at.Sub(came[0].at))
	}
	s = newService(t, reply{judge: func([]map[string]any) (int, string) { return 500, "" }})
	c = newClient(t, s, Options{MaxRetries: -1})
	track(t, c, "a")
	equal(t, "code", c.Flush().Receipts[0].Code, "server_error")
	equal(t, "no retries", len(s.came()), 1)
	for header, want := range map[string]time.Duration{"7": 7 * time.Second, "Wed, 21 Oct 2015 07:28:00 GMT": 0, "3600": retryAfterMax, "99999999999999999999": retryAfterMax, "Wed, 21 Oct 2915 07:28:00 GMT": retryAfterMax} {
		if got, asked := readRetryAfter(header); got != want || !asked {
			t.Errorf("%s: %v", header, got)
		}
	}
	for range 100 {
		if pause := pauseBefore(0, &answer{asked: true, retryAfter: time.Second}); pause < time.Second || pause > time.Second+retryFirst {
			t.Errorf("a second became %v", pause)
		}
		if pause := pauseBefore(90, &answer{}); pause < 0 || pause > retryMost {
			t.Errorf("retry 90 after %v", pause)
		}
	}
}

// One event that the service cannot take costs nobody else.
func TestOneBadEvent(t *testing.T) {
	s := newService(t, reply{judge: func(events []map[string]any) (int, string) {
		for _, e := range events {
			if e["event"] == "bad" {
				return 413, `{"code":"batch_too_large","message":"Too large."}`
			}
		}
		return 200, `{"success":true,"rejected":[{"index":0,"code":"missing_user_id","message":"Whose?"},{"index":99},"odd"]}`
	}})
	c := newClient(t, s, Options{Receipts: true})
	track(t, c, "a", "b", "bad", "c", "d")
	r := c.Flush()
	equal(t, "gave up", r.GaveUp, 1)
	var text []string
	for _, each := range r.Receipts {
		text = append(text, each.MessageId+":"+string(each.Outcome)+":"+each.Code)
	}
	equal(t, "receipts", strings.Join(text, " "), "a:rejected:missing_user_id b:accepted: bad:gave_up:batch_too_large c:rejected:missing_user_id d:accepted:")
}

// What a flush counts as accepted it does not count as waiting too, while the other half of its batch is under way.
func TestHalvesAreDoneOneByOne(t *testing.T) {
	hold := make(chan struct{})
	s := newService(t, reply{judge: func(events []map[string]any) (int, string) {
		if len(events) == 4 {
			return 413, `{"code":"batch_too_large","message":"Too large."}`
		}
		if events[0]["event"] == "c" {
			<-hold
		}
		return 200, accepted
	}})
	c := newClient(t, s, Options{FlushAt: 4})
	track(t, c, "a", "b", "c", "d")
	waitUntil(t, "the second half is under way", func() bool { return len(s.came()) == 3 })
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if r := c.FlushContext(ctx); r.Accepted != 2 || r.Waiting != 2 {
		t.Errorf("%+v", r)
	}
	close(hold)
	equal(t, "accepted", c.Flush().Accepted, 2)
}

// A full queue does what OnFull says, and nothing is lost without a receipt.
func TestFullQueue(t *testing.T) {
	for policy, want := range map[Policy]string{DropNew: "d", DropOld: "b", Block: "d"} {
		s := newService(t)
		s.hold = make(chan struct{})
		c := newClient(t, s, Options{OnFull: policy, MaxQueueSize: 2, FlushAt: 1, BlockTimeout: 20 * time.Millisecond})
		track(t, c, "a")
		waitUntil(t, "a request under way", func() bool { return len(s.came()) == 1 })
		track(t, c, "b", "c")
		err := c.Track(&Track{UserId: "u", Event: "d", MessageId: "d"})
		equal(t, string(policy)+" refuses", errors.Is(err, ErrQueueFull), policy != DropOld)
		close(s.hold)
		r := c.Flush()
		if r.Dropped != 1 || r.Receipts[0].MessageId != want || r.Receipts[0].Code != "queue_full" || r.Accepted != 3 {
			t.Errorf("%s: %+v", policy, r)
		}
	}
}

// Block waits for room, but not longer than the caller's context. One that panics holds up nobody else.
func TestBlock(t *testing.T) {
	s := newService(t)
	s.hold = make(chan struct{})
	c := newClient(t, s, Options{OnFull: Block, MaxQueueBytes: 1, FlushAt: 1, BlockTimeout: 20 * time.Second})
	track(t, c, "a")
	waitUntil(t, "a request under way", func() bool { return len(s.came()) == 1 })
	track(t, c, "b")
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	err := c.TrackContext(ctx, &Track{UserId: "u", Event: "c"})
	if !errors.Is(err, ErrQueueFull) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	err = c.TrackContext(struct{ context.Context }{}, &Track{UserId: "u", Event: "c"})
	equal(t, "panicked", errors.Is(err, &Error{Code: "internal_error"}), true)
	time.AfterFunc(20*time.Millisecond, func() { close(s.hold) })
	track(t, c, "d")
	equal(t, "accepted", c.Flush().Accepted, 3)
}

// Close sends what waits; afterwards calls are refused, and no goroutine is left.
func TestClose(t *testing.T) {
	s := newService(t)
	c := newClient(t, s, Options{ExitTimeout: 20 * time.Second})
	track(t, c, "a", "b")
	equal(t, "close", c.Close(), nil)
	equal(t, "again", c.Close(), nil)
	equal(t, "sent", len(s.events()), 2)
	if err := c.Track(&Track{UserId: "u", Event: "E"}); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if r := c.Flush(); r.Accepted != 2 || r.Dropped != 1 || r.Waiting != 0 {
		t.Errorf("%+v", r)
	}
	equal(t, "never used", New("wk").Close(), nil)
	s.Server.Close()
	noGoroutinesLeft(t)
}

// Close ends in time when the service hangs, cancels the request, and says how many are lost.
func TestCloseInTime(t *testing.T) {
	s := newService(t, reply{hang: true})
	c := newClient(t, s, Options{FlushAt: 1})
	track(t, c, "a")
	waitUntil(t, "a request under way", func() bool { return len(s.came()) == 1 })
	track(t, c, "b")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := c.CloseContext(ctx)
	if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "2 events") || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	waitUntil(t, "receipts", func() bool { return c.Stats().Dropped == 2 })
	s.Server.Close()
	noGoroutinesLeft(t)
}

// Close says how many are lost also when the goroutine gives up its batch before the flush of the close looks.
func TestCloseTellsWhatTheGoroutineGaveUp(t *testing.T) {
	for _, size := range []int{1, 2} {
		s := newService(t, reply{status: 503, retryAfter: "60"})
		c := newClient(t, s, Options{FlushAt: 2, BatchSize: size})
		track(t, c, "a", "b")
		waitUntil(t, "a try", func() bool { return len(s.came()) == 1 })
		// Its end is known to the goroutine, and never comes for the flush: that sees what the goroutine left behind.
		err := c.CloseContext(endsLate{context.Background(), time.Now().Add(20 * time.Millisecond)})
		if !errors.Is(err, ErrClosed) || !strings.Contains(err.Error(), "2 events") {
			t.Errorf("batches of %d: %v", size, err)
		}
		equal(t, "dropped", c.Stats().Dropped, 2)
	}
	away := newService(t)
	away.Server.Close()
	for range 50 { // as it comes
		c := newClient(t, away, Options{})
		track(t, c, "a", "b")
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Millisecond)
		if err := c.CloseContext(ctx); (err == nil) != (c.Stats().Dropped == 0) {
			t.Errorf("%v with %+v", err, c.Stats())
		}
		cancel()
	}
}

type endsLate struct {
	context.Context
	deadline time.Time
}

func (e endsLate) Deadline() (time.Time, bool) { return e.deadline, true }

// A flush ends with its context and says what still waits; the next one goes on.
func TestFlushInTime(t *testing.T) {
	s := newService(t)
	s.hold = make(chan struct{})
	c := newClient(t, s, Options{})
	track(t, c, "a", "b")
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Millisecond)
	defer cancel()
	equal(t, "waiting", c.FlushContext(ctx).Waiting, 2)
	close(s.hold)
	equal(t, "accepted", c.Flush().Accepted, 2)
}

// An answer that is there when the request cannot be written to its end is read.
func TestEarlyAnswer(t *testing.T) {
	h, o := &told{}, Options{MaxRetries: -1}
	h.handlers(&o)
	c := newClient(t, newService(t), o)
	c.Stats() // which makes the transport
	c.consumer.(*background).transport.own.DialContext = heard(func(context.Context, string, string) (net.Conn, error) {
		conn, _ := net.Pipe()
		answer := strings.NewReader("HTTP/1.1 413 Payload Too Large\r\nContent-Length: 0\r\n\r\n")
		return &refusingConn{Conn: conn, answer: answer, hungUp: make(chan struct{})}, nil
	})
	track(t, c, "a", "b")
	equal(t, "given up", c.Flush().GaveUp, 2)
	equal(t, "told", h.all(), "refused refused")
}

// refusingConn is one to a proxy that answers to the beginning of a request, and hangs up.
type refusingConn struct {
	net.Conn
	answer io.Reader
	once   sync.Once
	hungUp chan struct{}
}

func (c *refusingConn) Write([]byte) (int, error) {
	c.once.Do(func() { close(c.hungUp) })
	return 0, syscall.ECONNRESET
}

func (c *refusingConn) Read(b []byte) (int, error) {
	<-c.hungUp
	return c.answer.Read(b)
}

// A service that accepts a connection and never shakes hands holds up one request, and not all that follow.
func TestHandshakeHangs(t *testing.T) {
	s := &service{}
	s.Server = httptest.NewUnstartedServer(s)
	s.Listener = &deafOnce{Listener: s.Listener}
	s.StartTLS()
	t.Cleanup(s.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(authority, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	h, o := &told{}, Options{CAFile: authority, Timeout: 3 * time.Second}
	h.handlers(&o)
	c := newClient(t, s, o)
	track(t, c, "a")
	equal(t, "accepted", c.Flush().Accepted, 1)
	timedOut(t, h)
}

// deafOnce keeps the first connection to itself and never reads from it.
type deafOnce struct {
	net.Listener
	first net.Conn
}

func (l *deafOnce) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil && l.first == nil {
		l.first = conn
		return l.Listener.Accept()
	}
	return conn, err
}

// A timeout bounds the exchange and is tried again.
func TestTimeout(t *testing.T) {
	s := newService(t, reply{hang: true})
	h, o := &told{}, Options{Timeout: 500 * time.Millisecond}
	h.handlers(&o)
	c := newClient(t, s, o)
	track(t, c, "a")
	equal(t, "accepted", c.Flush().Accepted, 1)
	timedOut(t, h)
}

// timedOut wants timeouts and nothing else: on a busy machine further tries may have taken as long.
func timedOut(t *testing.T, h *told) {
	t.Helper()
	if rest := strings.ReplaceAll(h.all(), "timed_out", ""); h.all() == "" || strings.TrimSpace(rest) != "" {
		t.Errorf("told: %s", h.all())
	}
}

// Many goroutines share a client; each one's order is kept and nothing is lost or repeated.
func TestManyGoroutines(t *testing.T) {
	s := newService(t, reply{status: 500}, reply{reset: true})
	c := newClient(t, s, Options{OnFull: Block, MaxQueueSize: 50, BlockTimeout: time.Minute, DefaultContext: Context{"app": "x"}})
	var all sync.WaitGroup
	for g := range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for n := range 250 {
				if err := c.Track(&Track{UserId: fmt.Sprint(g), Event: "E", Properties: Properties{"n": n}, Context: Context{"g": g}}); err != nil {
					t.Error(err)
				}
			}
		}()
	}
	all.Wait()
	if r := c.Flush(); !r.OK() || r.Accepted != 2000 {
		t.Fatalf("%+v", r)
	}
	next, seen := map[any]float64{}, map[any]bool{}
	for _, e := range s.events() {
		if seen[e["messageId"]] {
			continue // of a request that was tried again
		}
		seen[e["messageId"]] = true
		n := e["properties"].(map[string]any)["n"].(float64)
		equal(t, "next", n, next[e["userId"]])
		next[e["userId"]] = n + 1
	}
	equal(t, "events", len(seen), 2000)
}

// BeforeSend changes, drops, or panics; names that it leaves out stay.
func TestBeforeSend(t *testing.T) {
	s := newService(t)
	hook := func(m map[string]any) map[string]any {
		switch m["event"] {
		case "drop":
			return nil
		case "panic":
			panic("no")
		}
		return map[string]any{"userId": "hidden", "event": m["event"], "big": m["properties"]}
	}
	c := newClient(t, s, Options{BeforeSend: hook})
	if err := c.Track(&Track{UserId: "u", Event: "a", MessageId: "a", Properties: Properties{"n": int64(1)<<60 + 1}}); err != nil {
		t.Fatal(err)
	}
	track(t, c, "drop")
	if err := c.Track(&Track{UserId: "u", Event: "panic"}); !errors.Is(err, &Error{Code: "before_send_failed"}) {
		t.Errorf("got %v", err)
	}
	r := c.Flush()
	equal(t, "accepted", r.Accepted, 1)
	equal(t, "dropped", r.Dropped, 1)
	e := s.events()[0]
	if e["userId"] != "hidden" || e["type"] != "track" || e["messageId"] != "a" || !strings.Contains(string(s.came()[0].raw), "1152921504606846977") {
		t.Errorf("%s", s.came()[0].raw)
	}
	c = newClient(t, s, Options{BeforeSend: hook, BeforeSendFailure: "pass"})
	track(t, c, "panic")
	equal(t, "passed", c.Flush().Accepted, 1)
}

// Without a key, or disabled, nothing is sent; debug waits for the answer of every call and logs it.
func TestSwitches(t *testing.T) {
	s := newService(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for key, o := range map[string]Options{"": {Logger: logger}, "wk": {Disabled: true}} {
		o.Endpoint = s.URL
		c, err := NewWithOptions(key, o)
		if err != nil {
			t.Fatal(err)
		}
		track(t, c, "a")
		equal(t, "still checked", errors.Is(c.Track(&Track{}), &Error{Code: "missing_user_id"}), true)
		equal(t, "sent", c.Flush().Accepted, 0)
	}
	equal(t, "said", strings.Contains(log.String(), "write key"), true)
	c := newClient(t, s, Options{Debug: true, Logger: logger})
	track(t, c, "a")
	equal(t, "answered", c.Stats().Accepted, 1)
	equal(t, "logged", strings.Contains(log.String(), "messageId"), true)
	t.Setenv("DEBUG", "x,analytics")
	log.Reset()
	c = newClient(t, s, Options{Logger: logger})
	track(t, c, "b")
	equal(t, "logged by DEBUG", strings.Contains(log.String(), "messageId"), true)
}

// A spool is in the folder in which the client was made, wherever the program is when it needs another file.
func TestSpoolPath(t *testing.T) {
	c := newClient(t, newService(t), Options{Spool: "spool"})
	equal(t, "absolute", filepath.IsAbs(c.Options().Spool), true)
}

// A wrong option is named at once by NewWithOptions, and by every call of New's client; the environment fills in.
func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"flush_at": {FlushAt: -1}, "batch_size": {BatchSize: 2501}, "on_full": {OnFull: "wait"}, "endpoint": {Endpoint: "ftp://x"},
		"ca_file": {CAFile: "/nowhere"}, "spool": {Spool: t.TempDir(), OnFull: Block}, "before_send_failure": {BeforeSendFailure: "x"},
		"DisableSSL": {DisableSSL: true, Endpoint: "https://x"}, "timeout": {Timeout: 2 * time.Hour},
		"default_context": {DefaultContext: Context{"a": explosive{}}},
	} {
		_, err := NewWithOptions("wk", o)
		if !errors.Is(err, &Error{Code: "invalid_option"}) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := NewWithOptions("w\nk", Options{}); err == nil {
		t.Error("a key with a line end")
	}
	for _, endpoint := range []string{"https://user:secret@example.com", "https://user:secret@example.com:port"} {
		if _, err := NewWithOptions("wk", Options{Endpoint: endpoint}); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("a password is shown: %v", err)
		}
	}
	c := New("wk")
	c.FlushAfter = -1
	for range 2 {
		if err := c.Track(&Track{UserId: "u", Event: "E"}); !errors.Is(err, &Error{Code: "invalid_option"}) {
			t.Errorf("got %v", err)
		}
	}
	_, _, _ = c.Flush(), c.Close(), c.Stats()
	t.Setenv("HOOKLINE_CLIENT_SIZE", "7")
	t.Setenv("HOOKLINE_CLIENT_FLUSH_AFTER", "0.5")
	t.Setenv("HOOKLINE_CLIENT_MAX_RETRIES", "0")
	t.Setenv("HOOKLINE_CLIENT_ENABLED", "no")
	t.Setenv("HOOKLINE_CLIENT_DEFAULT_CONTEXT", `{"a":1}`)
	o, err := Options{BatchSize: 5}.resolved()
	if err != nil || o.Size != 7 || o.FlushAt != 7 || o.FlushAfter != 500*time.Millisecond || o.MaxRetries != 0 || !o.Disabled || o.DefaultContext["a"] != 1.0 || o.BatchSize != 5 {
		t.Errorf("%+v %v", o, err)
	}
	o, _ = Options{FlushAt: 9}.resolved()
	equal(t, "code wins", o.FlushAt, 9)
	o, _ = Options{Timeout: 1_001 * time.Millisecond}.resolved()
	equal(t, "a timeout as it was given", o.Timeout, 1_001*time.Millisecond)
	for _, text := range []string{"inf", "NaN", "1e300"} {
		t.Setenv("HOOKLINE_CLIENT_RETRY_SECONDS", text)
		if o, err := (Options{}).resolved(); err == nil {
			t.Errorf("%s was taken for %v", text, o.RetryFor)
		}
	}
	t.Setenv("HOOKLINE_CLIENT_RETRY_SECONDS", "")
	t.Setenv("HOOKLINE_CLIENT_GZIP", "maybe")
	if _, err := (Options{}).resolved(); err == nil {
		t.Error("a switch that is none")
	}
}

// Faults of TLS, and what answers but is no Hookline, have codes of their own.
func TestFaults(t *testing.T) {
	s := newService(t)
	for endpoint, code := range map[string]string{
		strings.Replace(s.URL, "http", "https", 1): "tls_failed",
		"http://127.0.0.1:1":                       "connection_failed",
	} {
		c := newClient(t, s, Options{Endpoint: endpoint, MaxRetries: -1})
		track(t, c, "a")
		equal(t, endpoint, c.Flush().Receipts[0].Code, code)
	}
	odd := newService(t, reply{status: 302}, reply{status: 200, body: "hello"})
	c := newClient(t, odd, Options{MaxRetries: -1})
	for range 2 {
		track(t, c, "a")
		equal(t, "no Hookline", c.Flush().Receipts[0].Code, "unexpected_answer")
	}
}

// Handlers may make calls, and their panics are their own.
func TestHandlers(t *testing.T) {
	s := newService(t)
	var c *Client
	calls := 0
	o := Options{OnSuccess: func([]string) {
		if calls++; calls == 1 {
			track(t, c, "from a handler")
			panic("no")
		}
	}, ErrorHandler: func(string, string) { panic("no") }}
	c = newClient(t, s, o)
	track(t, c, "a")
	_ = c.Track(&Track{})
	c.Flush()
	c.Flush()
	equal(t, "sent", strings.Join(s.names(), ", "), "a, from a handler")
}

// A handler may flush, wait for room and close: on the goroutine that sends none of these waits for itself.
func TestHandlerCallsTheClient(t *testing.T) {
	for _, spool := range []string{"", t.TempDir()} {
		s := newService(t)
		var c *Client
		waiting, o := 0, Options{Spool: spool, FlushAt: 2, ExitTimeout: time.Hour, Debug: true, Timeout: time.Hour}
		if spool == "" {
			o.OnFull, o.MaxQueueSize, o.BlockTimeout = Block, 2, time.Hour
		}
		o.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
		o.OnSuccess = func(ids []string) {
			if ids[0] != "a" {
				return
			}
			track(t, c, "b", "c") // with Debug each waits for its answer elsewhere
			if spool == "" {
				equal(t, "full", errors.Is(c.Track(&Track{UserId: "u", Event: "E"}), ErrQueueFull), true)
			}
			waiting = c.FlushContext(context.Background()).Waiting
			equal(t, "close", c.Close(), nil)
		}
		c = newClient(t, s, o)
		track(t, c, "a")
		waitUntil(t, "closed", func() bool { return errors.Is(c.Track(&Track{UserId: "u", Event: "E"}), ErrClosed) })
		equal(t, "close", c.Close(), nil)
		got := s.names()
		equal(t, "sent", strings.Join(got[:3], " "), "a b c")
		if waiting < 2 {
			t.Errorf("%d waited", waiting)
		}
		s.Server.Close()
		noGoroutinesLeft(t)
	}
}

// A handler may close when it hears of what a close loses, on whatever goroutine that is.
func TestHandlerOfACloseCloses(t *testing.T) {
	s := newService(t, reply{hang: true})
	var c *Client
	o := Options{FlushAt: 1, ErrorHandler: func(string, string) { equal(t, "close in a handler", c.Close(), nil) }}
	c = newClient(t, s, o)
	track(t, c, "a")
	waitUntil(t, "a request under way", func() bool { return len(s.came()) == 1 })
	track(t, c, "b")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	closed := make(chan error, 1)
	go func() { closed <- c.CloseContext(ctx) }()
	waitUntil(t, "closed", func() bool { return len(closed) == 1 })
	equal(t, "lost", errors.Is(<-closed, ErrClosed), true)
	equal(t, "again", errors.Is(c.Close(), ErrClosed), true)
	s.Server.Close()
	noGoroutinesLeft(t)
}

// A handler that does not return ends the sending, as the documentation says; nobody waits for it afterwards.
func TestHandlerThatDoesNotReturn(t *testing.T) {
	c := newClient(t, newService(t), Options{OnSuccess: func([]string) { runtime.Goexit() }, ExitTimeout: time.Hour})
	track(t, c, "a", "b")
	equal(t, "accepted", c.FlushContext(context.Background()).Accepted, 2)
	track(t, c, "c")
	equal(t, "waiting", c.FlushContext(context.Background()).Waiting > 0, true)
	equal(t, "lost", errors.Is(c.Close(), ErrClosed), true)
}

type panicking struct{ slog.Handler }

func (panicking) Enabled(_ context.Context, level slog.Level) bool {
	if level == slog.LevelDebug {
		panic("no")
	}
	return true
}

func (panicking) Handle(context.Context, slog.Record) error { panic("no") }

func (panicking) RoundTrip(*http.Request) (*http.Response, error) { panic("no") }

// A panic of the program's own log or transport ends neither the program nor the sending.
func TestPanics(t *testing.T) {
	s := newService(t, reply{status: 500})
	c := newClient(t, s, Options{Logger: slog.New(panicking{}), Debug: true})
	track(t, c, "a")
	equal(t, "accepted", c.Flush().Accepted, 1)
	h, o := &told{}, Options{Transport: panicking{}, MaxRetries: -1}
	h.handlers(&o)
	c = newClient(t, s, o)
	track(t, c, "b")
	equal(t, "gave up", c.Flush().GaveUp, 1)
	equal(t, "told", h.all(), "connection_failed")
}

// A handler that makes a call may cause the next loss itself: that ends, and does not end the program.
func TestHandlerOfItsOwnLoss(t *testing.T) {
	var c *Client
	calls := 0
	o := Options{ErrorHandler: func(code, _ string) {
		if calls++; calls > 100_000 { // not for ever
			return
		}
		for range 2 {
			_ = c.Track(&Track{UserId: "u1", Event: "lost", Properties: Properties{"code": code}})
		}
	}}
	c = newClient(t, newService(t), o)
	_ = c.Close()
	if err := c.Track(&Track{UserId: "u1", Event: "E"}); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	if calls < 2 || calls > 100_000 {
		t.Errorf("%d calls of the handler", calls)
	}
}

// A flush counts what was queued before it, also when later events are in the same request.
func TestFlushCountsWhatWasBefore(t *testing.T) {
	b := &background{}
	b.queue.removed = 7
	b.underWay.position, b.underWay.count = 1, 6
	for target, open := range map[int]int{0: 0, 1: 0, 2: 1, 7: 6, 8: 6} {
		equal(t, fmt.Sprint("open before ", target), b.openBefore(target), open)
	}
}

// Receipts are bounded; the oldest go first.
func TestReceiptsAreBounded(t *testing.T) {
	l := newLedger(&Options{}, slog.Default())
	l.log = slog.New(slog.NewTextHandler(&bytes.Buffer{}, nil))
	batch := make([]message, 1000)
	for range receiptsMax/1000 + 50 {
		l.lost(batch, Dropped, "x", "y")
	}
	equal(t, "receipts", len(l.take(0).Receipts), receiptsMax)
	equal(t, "told once", len(l.take(0).Receipts), 0)
}

// A call costs no memory but its own map.
func TestAllocations(t *testing.T) {
	c, err := NewWithOptions("wk", Options{MaxQueueSize: 1e6, MaxQueueBytes: 1 << 30, FlushAt: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	properties := Properties{"order": 1, "total": 12.5, "currency": "EUR"}
	each := testing.AllocsPerRun(5_000, func() { _ = c.Track(&Track{UserId: "u1", Event: "E", Properties: properties}) })
	if each > 1 {
		t.Errorf("%g allocations per call", each)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = c.CloseContext(ctx)
}
