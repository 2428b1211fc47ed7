package hookline

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// service stands in for Hookline: it gives the scripted answers in order, and then accepts everything.
type service struct {
	*httptest.Server
	mu       sync.Mutex
	script   []reply
	requests []request
	hold     chan struct{} // when set, answers wait until it is closed
}

type reply struct {
	status     int
	body       string
	retryAfter string
	hang       bool // for longer than any client waits
	reset      bool
	judge      func(events []map[string]any) (int, string) // instead of status and body, and for all that follow
}

type request struct {
	header http.Header
	path   string
	body   struct {
		Batch  []map[string]any `json:"batch"`
		SentAt string           `json:"sentAt"`
	}
	raw []byte
	at  time.Time
}

const accepted = `{"success":true}`

func newService(t *testing.T, script ...reply) *service {
	t.Helper()
	s := &service{script: script}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	came := request{header: r.Header.Clone(), path: r.URL.Path, at: time.Now()}
	var body io.Reader = r.Body
	if r.Header.Get("Content-Encoding") == "gzip" {
		body, _ = gzip.NewReader(r.Body)
	}
	came.raw, _ = io.ReadAll(body)
	_ = json.Unmarshal(came.raw, &came.body)
	s.mu.Lock()
	s.requests = append(s.requests, came)
	answer, hold := reply{status: 200, body: accepted}, s.hold
	if len(s.script) > 0 {
		answer = s.script[0]
		if answer.judge == nil {
			s.script = s.script[1:]
		}
	}
	s.mu.Unlock()
	if hold != nil {
		<-hold
	}
	if answer.judge != nil {
		answer.status, answer.body = answer.judge(came.body.Batch)
	}
	if answer.hang {
		<-r.Context().Done()
		return
	}
	if answer.reset {
		panic(http.ErrAbortHandler)
	}
	if answer.retryAfter != "" {
		w.Header().Set("Retry-After", answer.retryAfter)
	}
	w.WriteHeader(answer.status)
	_, _ = io.WriteString(w, answer.body)
}

func (s *service) came() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.requests...)
}

// events are all that came, in order.
func (s *service) events() (all []map[string]any) {
	for _, r := range s.came() {
		all = append(all, r.body.Batch...)
	}
	return all
}

func (s *service) names() (all []string) {
	for _, e := range s.events() {
		name, _ := e["event"].(string)
		all = append(all, name)
	}
	return all
}

// told is what handlers were called with.
type told struct {
	mu    sync.Mutex
	codes []string
	ids   []string
}

func (h *told) handlers(o *Options) {
	o.ErrorHandler = func(code, _ string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.codes = append(h.codes, code)
	}
	o.OnSuccess = func(ids []string) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.ids = append(h.ids, ids...)
	}
}

func (h *told) all() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.codes, " ")
}

// newClient makes a client of the service that is closed at the end of the test.
func newClient(t *testing.T, s *service, o Options) *Client {
	t.Helper()
	if o.Endpoint == "" {
		o.Endpoint = s.URL
	}
	client, err := NewWithOptions("wk", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func track(t *testing.T, c *Client, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := c.Track(&Track{UserId: "u1", Event: name, MessageId: name}); err != nil {
			t.Fatal(err)
		}
	}
}

func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); !is(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not reached: %s", what)
		}
	}
}

func equal[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

// noGoroutinesLeft fails when goroutines of this library live on.
func noGoroutinesLeft(t *testing.T) {
	t.Helper()
	waitUntil(t, "no goroutine of the library", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return !strings.Contains(string(stacks), "hookline.(*signals).start") && !strings.Contains(string(stacks), "persistConn")
	})
}
