package hookline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Options of a client. Zero values mean the defaults; of a duration or count whose 0 would mean something else, negative
// values mean none. An option that is not given is taken from the environment, where there is a variable with its name
// in capitals and underscores behind HOOKLINE_CLIENT_, such as HOOKLINE_CLIENT_FLUSH_AFTER (times in seconds).
type Options struct {
	// Endpoint is the URL of the service, http://127.0.0.1:8080 by default. Without a scheme DisableSSL decides.
	Endpoint string
	// Size is another name of FlushAt; when both are given, the smaller counts.
	Size int
	// FlushAt sends after this many messages (20); 1 sends every call at once.
	FlushAt int
	// FlushAfter sends when this time has passed since the last flush (5 s).
	FlushAfter time.Duration
	// BatchSize is the number of events per request (100), at most 2,500; a request is never larger than 500 KB.
	BatchSize int
	// MaxQueueSize is the number of events that may wait (10,000).
	MaxQueueSize int
	// MaxQueueBytes is the number of bytes of events that may wait (32 MiB).
	MaxQueueBytes int
	// OnFull says what happens when the queue is full: DropNew, DropOld or Block.
	OnFull Policy
	// BlockTimeout bounds how long Block waits before it refuses the new event (1 s). Negative: not at all.
	BlockTimeout time.Duration
	// Spool is a directory in which events are kept until they are acknowledged, across crashes; without it, in memory.
	Spool string
	// SpoolBytes is the number of bytes of one process's events that may wait in the spool (1 GiB), where neither count
	// nor bytes of the queue apply.
	SpoolBytes int
	// Timeout bounds one exchange with the service (10 s).
	Timeout time.Duration
	// Gzip compresses requests.
	Gzip bool
	// MaxRetries is the number of retries of a request before its events are given up (10,000). Negative: none.
	MaxRetries int
	// RetryFor is the time from a request's first try until its events are given up (1 h; RETRY_SECONDS in the
	// environment). Negative: none.
	RetryFor time.Duration
	// ExitTimeout bounds Close (2 s); CloseContext has its own bound. Negative: Close does not wait.
	ExitTimeout time.Duration
	// DisableSSL speaks plain HTTP where the endpoint has no scheme (SSL=false in the environment).
	DisableSSL bool
	// CAFile has the certificate authorities to trust instead of the system's (PEM).
	CAFile string
	// Transport makes the requests instead of a transport of the client's own.
	Transport http.RoundTripper
	// DefaultContext is laid under the context of every call.
	DefaultContext Context
	// DefaultIntegrations are laid under the integrations of every call.
	DefaultIntegrations Integrations
	// BeforeSend is called with every message; what it returns is sent, and nil is not.
	BeforeSend func(message map[string]any) map[string]any
	// BeforeSendFailure says whether a message whose BeforeSend panicked is dropped ("drop") or sent as it was ("pass").
	BeforeSendFailure string
	// OnSuccess is called with the messageIds of every request that the service acknowledged.
	OnSuccess func(messageIds []string)
	// ErrorHandler is called with a code and a sentence for whatever is lost, and when a request is first to be tried
	// again. Both handlers run on the goroutine that notices, mostly the one that sends. They may call the client: on that
	// goroutine Flush and Block do not wait, and Close goes on beside it. They must return: runtime.Goexit, which t.Fatal
	// of a test calls, would end the goroutine.
	ErrorHandler func(code, message string)
	// Receipts keeps receipts of accepted events too for the next Flush; those of lost ones always are.
	Receipts bool
	// Disabled checks and forgets all calls (ENABLED=false in the environment).
	Disabled bool
	// Debug logs every message, and waits for the answer in every call. Not for production.
	Debug bool
	// Logger takes warnings about lost events and, with Debug or DEBUG=analytics in the environment, every message.
	// Without one nothing is logged, and with these to standard error.
	Logger *slog.Logger
}

// Policy says what happens when the queue is full.
type Policy string

// What happens when the queue is full.
const (
	DropNew Policy = "drop_new" // refuse the new event
	DropOld Policy = "drop_old" // drop the oldest one
	Block   Policy = "block"    // wait for room for BlockTimeout, then refuse
)

const environmentPrefix = "HOOKLINE_CLIENT_"

var seconds = float64(time.Second)

// bound is an option that is a number: its default and what it may be. With none, a negative value means 0.
type bound struct {
	name               string
	count              *int
	time               *time.Duration
	usual, least, most float64
	none               bool
}

func (o *Options) bounds() []bound {
	return []bound{
		{name: "flush_at", count: &o.FlushAt, usual: 20, least: 1, most: 1e6},
		{name: "batch_size", count: &o.BatchSize, usual: 100, least: 1, most: batchEventsMax},
		{name: "max_queue_size", count: &o.MaxQueueSize, usual: 10_000, least: 1, most: 1e7},
		{name: "max_queue_bytes", count: &o.MaxQueueBytes, usual: 32 << 20, least: 1, most: 1 << 40},
		{name: "spool_bytes", count: &o.SpoolBytes, usual: 1 << 30, least: 1, most: 1 << 50},
		{name: "max_retries", count: &o.MaxRetries, usual: 10_000, most: 1e6, none: true},
		{name: "flush_after", time: &o.FlushAfter, usual: 5, least: 0.001, most: 86_400},
		{name: "timeout", time: &o.Timeout, usual: 10, least: 0.001, most: 3_600},
		{name: "block_timeout", time: &o.BlockTimeout, usual: 1, most: 3_600, none: true},
		{name: "retry_seconds", time: &o.RetryFor, usual: 3_600, most: 604_800, none: true},
		{name: "exit_timeout", time: &o.ExitTimeout, usual: 2, most: 3_600, none: true},
	}
}

// resolved returns the options in force; the error names the one that is wrong.
func (o Options) resolved() (Options, error) {
	if err := o.takeEnvironment(); err != nil {
		return o, err
	}
	if o.Size != 0 && (o.FlushAt == 0 || o.Size < o.FlushAt) {
		o.FlushAt = o.Size
	}
	for _, each := range o.bounds() {
		if err := each.settle(); err != nil {
			return o, err
		}
	}
	o.Size = o.FlushAt
	for _, each := range []struct {
		name    string
		value   *string
		choices []string
	}{
		{"on_full", (*string)(&o.OnFull), []string{"drop_new", "drop_old", "block"}},
		{"before_send_failure", &o.BeforeSendFailure, []string{"drop", "pass"}},
	} {
		if *each.value == "" {
			*each.value = each.choices[0]
		}
		if !strings.Contains("|"+strings.Join(each.choices, "|")+"|", "|"+*each.value+"|") {
			return o, invalidOption("%s must be one of %s, not %q", each.name, strings.Join(each.choices, ", "), *each.value)
		}
	}
	if o.Spool != "" && !spoolWorks {
		return o, invalidOption("there is no spool on this system")
	}
	if o.Spool != "" && o.OnFull != DropNew {
		return o, invalidOption("with a spool on_full can only be drop_new, not %q", o.OnFull)
	}
	if o.Spool != "" { // the program may change the folder in which it is
		absolute, err := filepath.Abs(o.Spool)
		if err != nil {
			return o, invalidOption("the folder that spool=%q is in cannot be found: %v", o.Spool, err)
		}
		o.Spool = absolute
	}
	if o.Endpoint == "" {
		o.Endpoint = "http://127.0.0.1:8080"
	}
	return o, nil
}

func (b *bound) settle() error {
	value := 0.0
	if b.count != nil {
		value = float64(*b.count)
	} else {
		value = b.time.Seconds()
	}
	switch {
	case value == 0:
		value = b.usual
	case value < 0 && b.none:
		value = 0
	case value < b.least || value > b.most:
		return invalidOption("%s must be a number from %g to %g, not %g", b.name, b.least, b.most, value)
	}
	if b.count != nil {
		*b.count = int(value)
	} else {
		*b.time = time.Duration(math.Round(value * seconds))
	}
	return nil
}

// takeEnvironment fills in what is not given.
func (o *Options) takeEnvironment() error {
	var wrong error
	read := func(name string, isGiven bool, take func(text string) error) {
		text := os.Getenv(environmentPrefix + strings.ToUpper(name))
		if !isGiven && text != "" && take(text) != nil {
			wrong = invalidOption("%s%s cannot be %q", environmentPrefix, strings.ToUpper(name), text)
		}
	}
	hasSize := o.Size != 0 || o.FlushAt != 0 // one option under two names
	read("size", hasSize, func(text string) (err error) { o.Size, err = strconv.Atoi(text); return err })
	for _, each := range o.bounds() {
		isGiven := each.count != nil && *each.count != 0 || each.time != nil && *each.time != 0
		read(each.name, isGiven || each.name == "flush_at" && hasSize, func(text string) error {
			value, err := strconv.ParseFloat(text, 64)
			if math.IsNaN(value) || each.time != nil && math.Abs(value) > math.MaxInt64/seconds {
				return errors.New("out of bounds") // of a duration: it would become any other, such as none
			}
			if value == 0 && each.none {
				value = -1
			}
			if each.count != nil {
				*each.count = int(value)
			} else {
				*each.time = time.Duration(math.Round(value * seconds))
			}
			if err == nil && (value == 0 || each.count != nil && value != float64(int(value))) {
				return errors.New("out of bounds")
			}
			return err
		})
	}
	for name, value := range map[string]*string{
		"endpoint": &o.Endpoint, "spool": &o.Spool, "ca_file": &o.CAFile, "on_full": (*string)(&o.OnFull),
		"before_send_failure": &o.BeforeSendFailure,
	} {
		read(name, *value != "", func(text string) error { *value = text; return nil })
	}
	for name, value := range map[string]*bool{
		"gzip": &o.Gzip, "receipts": &o.Receipts, "debug": &o.Debug, "ssl": &o.DisableSSL, "enabled": &o.Disabled,
	} {
		read(name, *value, func(text string) error {
			is, ok := map[string]bool{"1": true, "true": true, "yes": true, "0": false, "false": false, "no": false}[strings.ToLower(text)]
			if !ok {
				return errors.New("no switch")
			}
			*value = is != (name == "ssl" || name == "enabled")
			return nil
		})
	}
	read("default_context", o.DefaultContext != nil, func(text string) error { return json.Unmarshal([]byte(text), &o.DefaultContext) })
	read("default_integrations", o.DefaultIntegrations != nil, func(text string) error {
		return json.Unmarshal([]byte(text), &o.DefaultIntegrations)
	})
	return wrong
}

// batchURL is where batches go: the endpoint as people write it, with or without a scheme, a final slash or /v1.
func (o *Options) batchURL() (*url.URL, error) {
	text := o.Endpoint
	if !strings.Contains(text, "://") {
		text = map[bool]string{false: "https://", true: "http://"}[o.DisableSSL] + text
	}
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Hostname() == "" ||
		parsed.RawQuery != "" || parsed.Fragment != "" || parsed.User != nil || strings.Contains(parsed.Host, " ") {
		shown := fmt.Sprintf("be %q", o.Endpoint)
		if strings.Contains(o.Endpoint, "@") { // a password does not belong into logs
			shown = "have a user or password"
		}
		return nil, invalidOption("endpoint must look like https://host:port, and cannot %s", shown)
	}
	if parsed.Scheme == "https" && o.DisableSSL {
		return nil, invalidOption("DisableSSL contradicts endpoint=%q; write http:// there", o.Endpoint)
	}
	parsed.Path = strings.TrimSuffix(strings.TrimRight(parsed.Path, "/"), "/v1") + "/v1/batch"
	return parsed, nil
}

func checkWriteKey(key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return invalidOption("write_key must not hold line ends or the like")
	}
	return nil
}

// logger returns where lines go, and whether every message is to be logged.
func (o *Options) logger() (*slog.Logger, bool) {
	verbose := o.Debug
	for _, word := range strings.FieldsFunc(os.Getenv("DEBUG"), func(r rune) bool { return r == ',' || r == ' ' }) {
		verbose = verbose || word == "analytics"
	}
	switch {
	case o.Logger != nil:
		return slog.New(logHandler{o.Logger.Handler()}), verbose
	case verbose:
		return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelDebug})), true
	}
	return slog.New(slog.NewTextHandler(io.Discard, &slog.HandlerOptions{Level: slog.LevelError + 1})), false
}

// logHandler keeps a panic of the program's own handler from the goroutine that sends, whose end would be the program's.
type logHandler struct{ slog.Handler }

func (h logHandler) Enabled(ctx context.Context, level slog.Level) (is bool) {
	defer func() { _ = recover() }()
	return h.Handler.Enabled(ctx, level)
}

func (h logHandler) Handle(ctx context.Context, record slog.Record) (err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			err = fmt.Errorf("%v", panicked)
		}
	}()
	return h.Handler.Handle(ctx, record)
}

func invalidOption(format string, values ...any) error {
	return &Error{Code: "invalid_option", Message: fmt.Sprintf(format, values...)}
}
