package hookline

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Version of the library, told to the service in context.library and User-Agent.
const Version = "0.1.0"

const (
	libraryName    = "hookline-go"
	batchBytesMax  = 512_000 // the whole body before compression
	batchEventsMax = 2_500   // events the service takes in one request
	batchBegin     = `{"batch":[`
	batchEnd       = `],"sentAt":"2026-11-20T07:00:00.123Z"}`
	// Room for events, each with the comma after it.
	eventsBytesMax = batchBytesMax - len(batchBegin) - len(batchEnd)

	answerBytesMax = 1 << 20
	retryFirst     = 250 * time.Millisecond
	retryMost      = 30 * time.Second
	retryAfterMax  = 5 * time.Minute
)

// answer is what the service said to a batch. Status 0 is nothing at all; code is empty only when it was accepted.
type answer struct {
	status     int
	code       string
	reason     string
	rejected   []rejection // events of an accepted batch that were refused
	retryAfter time.Duration
	asked      bool // for retryAfter, which may be 0
}

type rejection struct {
	index        int
	code, reason string
}

// isRetryable reports whether the same batch may be accepted later.
func (a *answer) isRetryable() bool {
	switch a.status {
	case 0, 200, 408, 425, 429:
		return true
	}
	return a.status >= 500 && a.status != 501 && a.status != 505
}

// isAboutContent reports whether the request was refused because of an event in it. A bare 400 may mean everything.
func (a *answer) isAboutContent() bool {
	switch a.code {
	case "invalid_json", "invalid_utf8", "invalid_body", "nesting_too_deep", "event_too_large", "batch_too_large":
		return true
	}
	return a.status == 413
}

// transport sends batches over one connection that is kept alive. Nothing here retries, apart from a connection that the
// service had closed while it was idle. Used by one goroutine.
type transport struct {
	url     string
	headers http.Header
	timeout time.Duration
	round   http.RoundTripper
	own     *http.Transport // closed with the client; nil when the program gave its own
	zip     *gzip.Writer
}

func newTransport(writeKey string, o *Options) (*transport, error) {
	url, err := o.batchURL()
	if err != nil {
		return nil, err
	}
	t := &transport{
		url: url.String(), timeout: o.Timeout, round: o.Transport,
		headers: http.Header{
			"Authorization": {"Basic " + base64.StdEncoding.EncodeToString([]byte(writeKey+":"))},
			"Content-Type":  {"application/json"},
			"User-Agent":    {libraryName + "/" + Version},
			// Not sent. It tells net/http that a request may go again when its connection turns out to be closed.
			"Idempotency-Key": {},
		},
	}
	if o.Gzip {
		t.headers.Set("Content-Encoding", "gzip")
		// Events shrink to a fifth at once; higher levels cost more time than the bytes they save.
		t.zip, _ = gzip.NewWriterLevel(io.Discard, gzip.BestSpeed)
	}
	if t.round != nil {
		return t, nil
	}
	// net/http goes on connecting when its request has ended, and with one connection the next request waits for that.
	t.own = &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: heard((&net.Dialer{Timeout: o.Timeout}).DialContext), TLSHandshakeTimeout: o.Timeout,
		MaxConnsPerHost: 1, IdleConnTimeout: 90 * time.Second, DisableCompression: true, WriteBufferSize: 64 << 10,
	}
	t.round = t.own
	if o.CAFile == "" {
		return t, nil
	}
	authorities, err := os.ReadFile(o.CAFile)
	pool := x509.NewCertPool()
	if err != nil || !pool.AppendCertsFromPEM(authorities) {
		return nil, invalidOption("ca_file must be a file with certificates, not %q", o.CAFile)
	}
	t.own.TLSClientConfig = &tls.Config{RootCAs: pool}
	return t, nil
}

// send brings one batch to the service; a fault of the network is an answer with status 0.
func (t *transport) send(ctx context.Context, batch []message) (a answer) {
	defer func() {
		if panicked := recover(); panicked != nil { // of a transport of the program's own
			a = answer{code: "connection_failed", reason: failure("connection_failed", fmt.Errorf("%v", panicked)).Message}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	body := t.body(batch)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return answer{code: "connection_failed", reason: failure("connection_failed", err).Message}
	}
	request.Header = t.headers.Clone() // a program's transport may add to it
	response, err := t.round.RoundTrip(request)
	if err != nil {
		return faultOf(ctx, err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, answerBytesMax))
	if err != nil {
		return faultOf(ctx, err)
	}
	return readAnswer(response.StatusCode, text, response.Header.Get("Retry-After"))
}

// close lets go of the connection.
func (t *transport) close() {
	if t.own != nil {
		t.own.CloseIdleConnections()
	}
}

// body writes a request around events that are encoded already. It is not used again: net/http may still read from it
// after the answer is there.
func (t *transport) body(batch []message) []byte {
	size := len(batchBegin) + len(batchEnd)
	for _, m := range batch {
		size += len(m) + 1
	}
	body := append(make([]byte, 0, size), batchBegin...)
	for i, m := range batch {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, m...)
	}
	body = append(appendTime(append(body, `],"sentAt":"`...), time.Now()), `"}`...)
	if t.zip == nil {
		return body
	}
	var zipped bytes.Buffer
	t.zip.Reset(&zipped)
	_, _ = t.zip.Write(body)
	_ = t.zip.Close()
	return zipped.Bytes()
}

// heardConn is a connection whose other side may answer and hang up while the request is still being written, as proxies
// with a limit of their own do. net/http passes over that answer when a write has failed; reading says how it ended.
type heardConn struct {
	net.Conn
	hasFailed atomic.Bool // then nothing more is written: what would come behind the gap is another request
}

type dialing = func(ctx context.Context, network, address string) (net.Conn, error)

func heard(dial dialing) dialing {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &heardConn{Conn: conn}, nil
	}
}

func (c *heardConn) Write(b []byte) (int, error) {
	if c.hasFailed.Load() {
		return len(b), nil
	}
	n, err := c.Conn.Write(b)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		c.hasFailed.Store(true)
		return len(b), nil
	}
	return n, err
}

func faultOf(ctx context.Context, err error) answer {
	var (
		unverified *tls.CertificateVerificationError
		noTLS      tls.RecordHeaderError
		alert      tls.AlertError
		network    net.Error
	)
	code := "connection_failed"
	switch {
	case ctx.Err() != nil || errors.As(err, &network) && network.Timeout():
		return answer{code: "timed_out", reason: codes["timed_out"]}
	case errors.As(err, &unverified) || errors.As(err, &noTLS) || errors.As(err, &alert),
		strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		code = "tls_failed"
	case strings.Contains(err.Error(), "malformed"): // net/http has no type for it
		code = "unexpected_answer"
	}
	return answer{code: code, reason: failure(code, err).Message}
}

func readAnswer(status int, text []byte, retryAfterHeader string) answer {
	var said struct {
		Success  any
		Code     any
		Message  any
		Rejected any
	}
	_ = json.Unmarshal(text, &said)
	if status == http.StatusOK && said.Success == true {
		return answer{status: status, rejected: readRejected(said.Rejected)}
	}
	a := answer{status: status}
	a.retryAfter, a.asked = readRetryAfter(retryAfterHeader)
	if code, ok := said.Code.(string); ok && code != "" {
		a.code = code
		a.reason, _ = said.Message.(string)
		return a
	}
	switch {
	case status == http.StatusTooManyRequests:
		a.code = "throttled"
	case status >= 500:
		a.code = "server_error"
	case status < 400:
		a.code = "unexpected_answer"
	default:
		a.code = "refused"
	}
	a.reason = codes[a.code] + " (status " + strconv.Itoa(status) + ")"
	return a
}

func readRejected(given any) (found []rejection) {
	items, _ := given.([]any)
	for _, item := range items {
		fields, _ := item.(map[string]any)
		if index, ok := fields["index"].(float64); ok {
			code, _ := fields["code"].(string)
			reason, _ := fields["message"].(string)
			found = append(found, rejection{int(index), code, reason})
		}
	}
	return found
}

// readRetryAfter reads seconds or a date, up to retryAfterMax.
func readRetryAfter(header string) (time.Duration, bool) {
	seconds, err := strconv.ParseUint(strings.TrimSpace(header), 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(retryAfterMax/time.Second))) * time.Second, true
	}
	if at, err := http.ParseTime(header); err == nil {
		return min(max(0, time.Until(at)), retryAfterMax), true
	}
	return 0, false
}

// pauseBefore returns how long to wait before retry number retries (from 0): exponential with full jitter, or as long as
// the service asks and a little longer, so that not all clients come back at once.
func pauseBefore(retries int, a *answer) time.Duration {
	if a.asked {
		return a.retryAfter + time.Duration(rand.Float64()*float64(retryFirst))
	}
	return time.Duration(rand.Float64() * float64(min(retryMost, retryFirst<<min(retries, 20))))
}
