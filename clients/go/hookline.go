// Package hookline sends identify, track, page, screen, group and alias calls to Hookline: queued at once, sent in
// batches in the background, never in the way of the program.
//
//	client := hookline.New("WRITE_KEY")
//	client.Endpoint = "https://events.example.com"
//	defer client.Close()
//
//	client.Track(&hookline.Track{UserId: "u1", Event: "Order Completed", Properties: hookline.Properties{"total": 12.5}})
//
// A call returns when the event is queued, or an [Error] says why it was not. [Client.Flush] returns when every event
// queued before is on the service's disk or has failed, and says which.
package hookline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// flushTimeout is how long Flush waits when it is not told.
const flushTimeout = 10 * time.Second

// A Client sends calls for the source of one write key. Many goroutines may share it. Close it before the program ends:
// what waits in memory then is lost otherwise.
//
// The fields may be set before the first call, and not later; the [Options] have their meaning.
type Client struct {
	Size       int
	FlushAt    int
	FlushAfter time.Duration
	Endpoint   string
	Logger     *slog.Logger

	writeKey string
	given    Options
	begin    sync.Once
	*session       // made by the first call
	wrong    error // why there is none
	close    sync.Once
	closer   atomic.Uint64 // the number of the goroutine that closes
	closed   error
}

// session is a client whose options are settled.
type session struct {
	options   Options
	isEnabled bool
	isVerbose bool
	defaults  *defaults
	ledger    *ledger
	consumer  consumer
	encoders  sync.Pool
}

// New returns a client of the source with a write key. It never fails: what is wrong with the fields or with options from
// the environment is the error of every call. Without a write key calls are checked and forgotten.
func New(writeKey string) *Client { return &Client{writeKey: writeKey} }

// NewWithOptions returns a client, or an error that names the option that cannot be used.
func NewWithOptions(writeKey string, options Options) (*Client, error) {
	client := &Client{
		Size: options.Size, FlushAt: options.FlushAt, FlushAfter: options.FlushAfter, Endpoint: options.Endpoint,
		Logger: options.Logger, writeKey: writeKey, given: options,
	}
	_, err := newSession(writeKey, options)
	if err != nil {
		return nil, err
	}
	return client, nil
}

// Identify ties a user to traits.
func (c *Client) Identify(message *Identify) error {
	return c.IdentifyContext(context.Background(), message)
}

// IdentifyContext does what Identify does; ctx bounds how long the policy Block waits for room.
func (c *Client) IdentifyContext(ctx context.Context, message *Identify) error {
	event := message.event()
	return c.call(ctx, &event)
}

// Track records an action.
func (c *Client) Track(message *Track) error { return c.TrackContext(context.Background(), message) }

// TrackContext does what Track does; ctx bounds how long the policy Block waits for room.
func (c *Client) TrackContext(ctx context.Context, message *Track) error {
	event := message.event()
	return c.call(ctx, &event)
}

// Page records a page view.
func (c *Client) Page(message *Page) error { return c.PageContext(context.Background(), message) }

// PageContext does what Page does; ctx bounds how long the policy Block waits for room.
func (c *Client) PageContext(ctx context.Context, message *Page) error {
	event := message.event()
	return c.call(ctx, &event)
}

// Screen records a view in an app.
func (c *Client) Screen(message *Screen) error { return c.ScreenContext(context.Background(), message) }

// ScreenContext does what Screen does; ctx bounds how long the policy Block waits for room.
func (c *Client) ScreenContext(ctx context.Context, message *Screen) error {
	event := message.event()
	return c.call(ctx, &event)
}

// Group associates a user with a group.
func (c *Client) Group(message *Group) error { return c.GroupContext(context.Background(), message) }

// GroupContext does what Group does; ctx bounds how long the policy Block waits for room.
func (c *Client) GroupContext(ctx context.Context, message *Group) error {
	event := message.event()
	return c.call(ctx, &event)
}

// Alias associates one identity with another.
func (c *Client) Alias(message *Alias) error { return c.AliasContext(context.Background(), message) }

// AliasContext does what Alias does; ctx bounds how long the policy Block waits for room.
func (c *Client) AliasContext(ctx context.Context, message *Alias) error {
	event := message.event()
	return c.call(ctx, &event)
}

// Flush sends what is queued now and returns when every event queued before is acknowledged or lost, or after ten seconds,
// and says which. What happened since the last flush is told once: with several goroutines flushing, by one of them.
func (c *Client) Flush() FlushResult {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	return c.FlushContext(ctx)
}

// FlushContext does what Flush does, until ctx ends.
func (c *Client) FlushContext(ctx context.Context) FlushResult {
	if c.open() != nil {
		return FlushResult{}
	}
	return c.ledger.take(c.consumer.flush(ctx))
}

// Close sends what waits, for at most [Options.ExitTimeout], and ends. The error says how many events were lost by that;
// with a spool none are. Later calls return ErrClosed; Flush still tells what became of the events. Close may be called
// again.
func (c *Client) Close() error {
	if c.open() != nil { // as every call has said
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.options.ExitTimeout)
	defer cancel()
	return c.CloseContext(ctx)
}

// CloseContext does what Close does, until ctx ends. A second call waits for the first one, whatever its own limit.
func (c *Client) CloseContext(ctx context.Context) error {
	if c.open() != nil {
		return nil
	}
	if c.consumer.isSender() || isThis(&c.closer) { // in a handler, of what a close loses for one
		go func() { _ = c.Close() }()
		return nil
	}
	c.close.Do(func() {
		c.closer.Store(goroutine())
		defer c.closer.Store(0)
		if lost := c.consumer.close(ctx); lost > 0 {
			c.closed = &Error{Code: "closed", Message: fmt.Sprintf("%d events were lost: the client was closed before they could be sent.", lost)}
		}
	})
	return c.closed
}

// Stats counts all events since the client was made.
func (c *Client) Stats() Stats {
	if c.open() != nil {
		return Stats{}
	}
	return c.ledger.stats()
}

// Options returns the options in force, defaults and those from the environment included.
func (c *Client) Options() Options {
	if c.open() != nil {
		return c.given
	}
	return c.options
}

// open settles the options, once.
func (c *Client) open() error {
	c.begin.Do(func() {
		given := c.given
		given.Size, given.FlushAt, given.FlushAfter = c.Size, c.FlushAt, c.FlushAfter
		given.Endpoint, given.Logger = c.Endpoint, c.Logger
		if c.session, c.wrong = newSession(c.writeKey, given); c.wrong != nil {
			log, _ := given.logger()
			log.Error(c.wrong.Error())
		}
	})
	return c.wrong
}

func (c *Client) call(ctx context.Context, m *event) error {
	if err := c.open(); err != nil {
		return err
	}
	return c.session.call(ctx, m)
}

func newSession(writeKey string, given Options) (*session, error) {
	options, err := given.resolved()
	if err != nil {
		return nil, err
	}
	if writeKey == "" {
		writeKey = os.Getenv(environmentPrefix + "WRITE_KEY")
	}
	if err := checkWriteKey(writeKey); err != nil {
		return nil, err
	}
	s := &session{options: options}
	log, isVerbose := options.logger()
	s.isVerbose = isVerbose
	if s.isEnabled = writeKey != "" && !options.Disabled; writeKey == "" && !options.Disabled {
		log.Warn(codes["missing_write_key"])
	}
	s.ledger = newLedger(&s.options, log)
	warn := func(value any, err error) {
		log.Warn("a value cannot be written as JSON; null is sent instead", "type", fmt.Sprintf("%T", value), "error", err)
	}
	s.encoders.New = func() any { return &encoder{warn: warn} }
	if s.defaults, err = newDefaults(options.DefaultContext, options.DefaultIntegrations, &encoder{warn: warn}); err != nil {
		return nil, invalidOption("default_context or default_integrations cannot be used: %v", err)
	}
	transport, err := newTransport(writeKey, &s.options)
	if err != nil {
		return nil, err
	}
	if options.Spool != "" {
		s.consumer = newSpooled(writeKey, &s.options, s.ledger, transport)
	} else {
		s.consumer = newBackground(&s.options, s.ledger, transport)
	}
	return s, nil
}

// call checks, encodes and queues an event.
func (s *session) call(ctx context.Context, m *event) (err error) {
	e := s.encoders.Get().(*encoder)
	defer func() {
		if panicked := recover(); panicked != nil { // values with methods of their own can do anything
			err = s.refuse(failure("internal_error", fmt.Errorf("%v", panicked)))
		}
		if cap(e.buf) <= 2*messageBytesMax {
			e.buf = e.buf[:0]
			s.encoders.Put(e)
		}
	}()
	if code := m.check(); code != "" {
		return s.refuse(failure(code, nil))
	}
	if err := e.write(m, s.defaults); err != nil {
		return s.refuse(err)
	}
	if s.options.BeforeSend != nil {
		if isKept, err := s.filter(e); !isKept {
			return err
		}
	}
	if len(e.buf) > messageBytesMax {
		return s.refuse(failure("event_too_large", nil))
	}
	if !s.isEnabled {
		return nil
	}
	if s.isVerbose {
		s.ledger.log.Debug(m.kind, "message", string(e.buf))
	}
	if err := s.consumer.enqueue(ctx, e.buf); err != nil {
		return err
	}
	if s.options.Debug {
		ctx, cancel := context.WithTimeout(ctx, s.options.Timeout)
		defer cancel()
		s.consumer.flush(ctx)
	}
	return nil
}

// refuse counts a call that broke a rule.
func (s *session) refuse(err error) error {
	var wrong *Error
	if errors.As(err, &wrong) {
		s.ledger.invalid(wrong)
	}
	return err
}

// filter gives a copy of the message to BeforeSend; what that returns is in the encoder then.
func (s *session) filter(e *encoder) (isKept bool, err error) {
	var copied map[string]any
	reader := json.NewDecoder(bytes.NewReader(e.buf))
	reader.UseNumber()
	if err := reader.Decode(&copied); err != nil {
		return false, s.refuse(failure("internal_error", err))
	}
	named := [...]string{"type", "messageId", "timestamp"}
	given := [...]any{copied["type"], copied["messageId"], copied["timestamp"]}
	filtered, wrong := s.beforeSend(copied)
	if wrong != nil {
		if s.options.BeforeSendFailure == "pass" {
			s.ledger.report(wrong.Code, wrong.Message, 0)
			return true, nil
		}
		s.ledger.lost([]message{e.buf}, Dropped, wrong.Code, wrong.Message)
		return false, wrong
	}
	if filtered == nil {
		return false, nil
	}
	for i, name := range named {
		if _, has := filtered[name]; !has {
			filtered[name] = given[i]
		}
	}
	if id, ok := filtered["messageId"].(string); !ok || id == "" {
		filtered["messageId"] = given[1]
	}
	e.buf = e.buf[:0]
	if err := e.object(filtered, 0); err != nil {
		return false, s.refuse(err)
	}
	return true, nil
}

func (s *session) beforeSend(message map[string]any) (filtered map[string]any, wrong *Error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			wrong = failure("before_send_failed", fmt.Errorf("%v", panicked))
		}
	}()
	return s.options.BeforeSend(message), nil
}
