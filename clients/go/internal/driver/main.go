// The driver of the Go library for the book of behaviour: commands come on standard input, one JSON object a line, and
// each is answered with one on standard output.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"time"

	hookline "github.com/hookline/hookline-go"
)

type object = map[string]any

// options are those with a default that is no "none", by the names of the book.
const options = "endpoint size flush_at flush_after debug max_queue_size max_queue_bytes batch_size timeout on_full " +
	"block_timeout gzip max_retries retry_seconds receipts exit_timeout"

type command struct {
	Do      string
	Type    string
	Message object
	Count   int
	Seconds *float64
	Options object
}

// driver holds the client, and what its handlers were told.
type driver struct {
	client *hookline.Client

	mu           sync.Mutex
	codes        []string
	acknowledged []string
	closesWithin *float64
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	answers := json.NewEncoder(os.Stdout)
	d := driver{codes: []string{}, acknowledged: []string{}}
	for lines.Scan() {
		reader := json.NewDecoder(strings.NewReader(lines.Text()))
		reader.UseNumber()
		var asked command
		if err := reader.Decode(&asked); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := answers.Encode(d.do(&asked)); err != nil {
			os.Exit(1)
		}
	}
}

func (d *driver) do(asked *command) object {
	switch asked.Do {
	case "describe":
		return object{
			"language": "go", "version": hookline.Version, "consumers": []string{"background"}, "default_consumer": "background", "reads_answers": []string{"background"},
			"features": append(strings.Fields(options), "spool", "default_context", "default_integrations", "ssl", "enabled", "thread", "environment"),
		}
	case "defaults":
		return object{"options": defaults()}
	case "init":
		return d.init(asked.Options)
	case "call":
		return d.call(asked.Type, asked.Message)
	case "calls":
		return d.calls(asked)
	case "flush":
		ctx, cancel := within(asked.Seconds)
		defer cancel()
		return result(d.client.FlushContext(ctx))
	case "close":
		if asked.Seconds == nil {
			_ = d.client.Close() // what it says is in the result
		} else {
			ctx, cancel := within(asked.Seconds)
			defer cancel()
			_ = d.client.CloseContext(ctx)
		}
		now, cancel := within(new(float64))
		defer cancel()
		return result(d.client.FlushContext(now))
	case "close_in_handler":
		d.mu.Lock()
		defer d.mu.Unlock()
		d.closesWithin = asked.Seconds
		return object{"ok": true}
	case "told":
		d.mu.Lock()
		defer d.mu.Unlock()
		return object{"codes": d.codes, "acknowledged": d.acknowledged}
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return object{"error": "unknown_command"}
}

func (d *driver) init(given object) object {
	options := hookline.Options{
		ErrorHandler: func(code, _ string) {
			d.mu.Lock()
			d.codes = append(d.codes, code)
			d.mu.Unlock()
			d.closeNow()
		},
		OnSuccess: func(ids []string) {
			d.mu.Lock()
			d.acknowledged = append(d.acknowledged, ids...)
			d.mu.Unlock()
			d.closeNow()
		},
	}
	key := ""
	for name, value := range given {
		switch name {
		case "write_key":
			key, _ = value.(string)
		case "consumer":
			if value != "background" {
				return object{"error": "invalid_option"}
			}
		default:
			if !set(&options, name, value) {
				return object{"error": "invalid_option"}
			}
		}
	}
	client, err := hookline.NewWithOptions(key, options)
	if err != nil {
		return failed(err)
	}
	d.client = client
	return object{"ok": true}
}

// closeNow closes the client in the first handler after it was asked to.
func (d *driver) closeNow() {
	d.mu.Lock()
	seconds := d.closesWithin
	d.closesWithin = nil
	d.mu.Unlock()
	if seconds != nil {
		ctx, cancel := within(seconds)
		defer cancel()
		_ = d.client.CloseContext(ctx) // what it says is in the result
	}
}

// named are the options whose names are not those of the book in Go's spelling.
var named = map[string]string{
	"retry_seconds": "RetryFor", "ssl": "DisableSSL", "enabled": "Disabled", "ca_file": "CAFile",
}

func fieldOf(options *hookline.Options, name string) reflect.Value {
	goName := named[name]
	if goName == "" {
		for _, word := range strings.Split(name, "_") {
			goName += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return reflect.ValueOf(options).Elem().FieldByName(goName)
}

// set gives an option its value; false when it has another type. A number that Go's zero value cannot say becomes
// negative: none, or out of bounds.
func set(options *hookline.Options, name string, value any) bool {
	field := fieldOf(options, name)
	if !field.IsValid() {
		return false
	}
	switch v := value.(type) {
	case nil:
		return true
	case string:
		if field.Kind() == reflect.String {
			field.SetString(v)
			return true
		}
	case bool:
		if field.Kind() == reflect.Bool {
			field.SetBool(v != (name == "ssl" || name == "enabled"))
			return true
		}
	case json.Number:
		number, _ := v.Float64()
		if number == 0 {
			number = -1
		}
		switch field.Interface().(type) {
		case int:
			field.SetInt(int64(number))
			return number == float64(int64(number))
		case time.Duration:
			field.SetInt(int64(number * float64(time.Second)))
			return true
		}
	case object:
		if field.Kind() == reflect.Map {
			field.Set(reflect.ValueOf(v).Convert(field.Type()))
			return true
		}
	}
	return false
}

// defaults are the options in force when none is given.
func defaults() object {
	inForce := hookline.New("").Options()
	found := object{
		"write_key": "", "consumer": "background", "ssl": !inForce.DisableSSL, "enabled": !inForce.Disabled,
		"spool": nil, "default_context": nil, "default_integrations": nil,
	}
	for _, name := range strings.Fields(options) {
		switch value := fieldOf(&inForce, name).Interface().(type) {
		case time.Duration:
			found[name] = value.Seconds()
		default:
			found[name] = value
		}
	}
	return found
}

func (d *driver) call(kind string, message object) object {
	id, err := text(message, "messageId")
	if err == nil && id == "" { // as programs do that want to find an event again
		id = hookline.NewMessageId()
	}
	if err == nil {
		err = d.send(kind, message, id)
	}
	if err != nil {
		return failed(err)
	}
	return object{"messageId": id}
}

func (d *driver) calls(asked *command) object {
	written, _ := json.Marshal(asked.Message)
	taken := 0
	for n := range asked.Count {
		message := asked.Message
		if strings.Contains(string(written), "{n}") {
			message = nil
			_ = json.Unmarshal([]byte(strings.ReplaceAll(string(written), "{n}", fmt.Sprint(n))), &message)
		}
		id, _ := text(message, "messageId")
		if d.send(asked.Type, message, id) == nil {
			taken++
		}
	}
	return object{"taken": taken}
}

// fields reads a message into what a struct of the library takes; the first thing that Go has no type for is its error.
type fields struct {
	message object
	err     error
}

func (f *fields) text(name string) string {
	value, err := text(f.message, name)
	f.err = errors.Join(f.err, err)
	return value
}

func (f *fields) object(name string) object {
	switch value := f.message[name].(type) {
	case nil:
	case object:
		return value
	default:
		f.err = errors.Join(f.err, &hookline.Error{Code: "invalid_field"})
	}
	return nil
}

// text reads a string; numbers are what a program in Go writes as strings.
func text(message object, name string) (string, error) {
	switch value := message[name].(type) {
	case nil:
		return "", nil
	case string:
		return value, nil
	case json.Number:
		return value.String(), nil
	case float64:
		return fmt.Sprint(value), nil
	}
	code := map[string]string{"timestamp": "invalid_timestamp"}[name]
	if code == "" {
		code = "invalid_field"
	}
	return "", &hookline.Error{Code: code}
}

func (d *driver) send(kind string, message object, id string) error {
	f := &fields{message: message}
	user, anonymous, timestamp := f.text("userId"), f.text("anonymousId"), f.text("timestamp")
	context, integrations := hookline.Context(f.object("context")), hookline.Integrations(f.object("integrations"))
	properties, traits := hookline.Properties(f.object("properties")), hookline.Traits(f.object("traits"))
	category, name, event, group, previous := f.text("category"), f.text("name"), f.text("event"), f.text("groupId"), f.text("previousId")
	if f.err != nil {
		return f.err
	}
	switch kind {
	case "identify":
		return d.client.Identify(&hookline.Identify{UserId: user, AnonymousId: anonymous, Traits: traits,
			Timestamp: timestamp, Context: context, Integrations: integrations, MessageId: id})
	case "track":
		return d.client.Track(&hookline.Track{UserId: user, AnonymousId: anonymous, Event: event, Properties: properties,
			Timestamp: timestamp, Context: context, Integrations: integrations, MessageId: id})
	case "page":
		return d.client.Page(&hookline.Page{UserId: user, AnonymousId: anonymous, Category: category, Name: name, Properties: properties, Traits: traits,
			Timestamp: timestamp, Context: context, Integrations: integrations, MessageId: id})
	case "screen":
		return d.client.Screen(&hookline.Screen{UserId: user, AnonymousId: anonymous, Category: category, Name: name, Properties: properties, Traits: traits,
			Timestamp: timestamp, Context: context, Integrations: integrations, MessageId: id})
	case "group":
		return d.client.Group(&hookline.Group{UserId: user, AnonymousId: anonymous, GroupId: group, Traits: traits,
			Timestamp: timestamp, Context: context, Integrations: integrations, MessageId: id})
	case "alias":
		return d.client.Alias(&hookline.Alias{UserId: user, PreviousId: previous,
			Timestamp: timestamp, Context: context, Integrations: integrations, MessageId: id})
	}
	return &hookline.Error{Code: "invalid_field"}
}

func result(r hookline.FlushResult) object {
	return object{
		"accepted": r.Accepted, "handed_over": 0, "rejected": r.Rejected, "gave_up": r.GaveUp, "dropped": r.Dropped,
		"waiting": r.Waiting,
	}
}

func failed(err error) object {
	var known *hookline.Error
	if errors.As(err, &known) {
		return object{"error": known.Code}
	}
	return object{"error": err.Error()}
}

// within bounds what has no time of its own; without one it takes as long as it takes.
func within(seconds *float64) (context.Context, context.CancelFunc) {
	if seconds == nil {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), time.Duration(*seconds*float64(time.Second)))
}
