package hookline

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

// Free-form parts of a message. Plain maps and literals of map[string]any are assignable to them.
type (
	// Traits are attributes of a user or a group.
	Traits map[string]any
	// Properties belong to one action or view.
	Properties map[string]any
	// Context is data that is no attribute of the user, such as an IP address. Its key "integrations" counts as Integrations.
	Context map[string]any
	// Integrations says which destinations get the event, such as {"All": false, "Webhooks": true}.
	Integrations map[string]any
)

// Identify ties a user to traits. It needs UserId or AnonymousId.
type Identify struct {
	UserId       string
	AnonymousId  string
	Traits       Traits
	Timestamp    string // ISO 8601, or seconds since the epoch; without one it is the time of the call
	Context      Context
	Integrations Integrations
	MessageId    string // made when there is none; see NewMessageId
}

// Track records an action. It needs UserId or AnonymousId, and Event.
type Track struct {
	UserId       string
	AnonymousId  string
	Event        string
	Properties   Properties
	Timestamp    string
	Context      Context
	Integrations Integrations
	MessageId    string
}

// Page records a page view. It needs UserId or AnonymousId and, with a Category, a Name. Traits count as Properties when
// there are none.
type Page struct {
	UserId       string
	AnonymousId  string
	Category     string
	Name         string
	Properties   Properties
	Traits       Traits
	Timestamp    string
	Context      Context
	Integrations Integrations
	MessageId    string
}

// Screen records a view in an app, as Page does on a site.
type Screen struct {
	UserId       string
	AnonymousId  string
	Category     string
	Name         string
	Properties   Properties
	Traits       Traits
	Timestamp    string
	Context      Context
	Integrations Integrations
	MessageId    string
}

// Group associates a user with a group. It needs UserId or AnonymousId, and GroupId.
type Group struct {
	UserId       string
	AnonymousId  string
	GroupId      string
	Traits       Traits
	Timestamp    string
	Context      Context
	Integrations Integrations
	MessageId    string
}

// Alias associates one identity with another: who was PreviousId is UserId from now on. It needs both.
type Alias struct {
	UserId       string
	PreviousId   string
	Timestamp    string
	Context      Context
	Integrations Integrations
	MessageId    string
}

const (
	messageIdCharactersMax = 512
	messageBytesMax        = 32_768
)

// idSeed tells processes apart; with the time and a count no two ids are the same.
var (
	idSeed  = newSeed()
	idCount atomic.Uint64
)

func newSeed() string {
	var random [8]byte
	_, _ = rand.Read(random[:])
	return hex.EncodeToString(random[:])
}

// NewMessageId returns an id that nobody used before. Give it as MessageId of an event whose receipt is to be found again.
func NewMessageId() string { return string(appendMessageId(nil, time.Now())) }

func appendMessageId(b []byte, now time.Time) []byte {
	b = strconv.AppendInt(b, now.UnixNano(), 16)
	b = append(append(append(b, '-'), idSeed...), '-')
	return strconv.AppendUint(b, idCount.Add(1), 16)
}

// event is what all calls have in common.
type event struct {
	kind, userId, anonymousId, timestamp, messageId string
	texts                                           [2]field // of this type, such as the event's name
	objects                                         [2]member
	context                                         Context
	integrations                                    Integrations
}

type field struct{ name, value string }

type member struct {
	name  string
	value map[string]any
}

func (m *Identify) event() event {
	return event{
		kind: "identify", userId: m.UserId, anonymousId: m.AnonymousId, timestamp: m.Timestamp, messageId: m.MessageId,
		objects: [2]member{{"traits", m.Traits}}, context: m.Context, integrations: m.Integrations,
	}
}

func (m *Track) event() event {
	return event{
		kind: "track", userId: m.UserId, anonymousId: m.AnonymousId, timestamp: m.Timestamp, messageId: m.MessageId,
		texts:   [2]field{{"event", m.Event}},
		objects: [2]member{{"properties", m.Properties}}, context: m.Context, integrations: m.Integrations,
	}
}

func (m *Page) event() event {
	e := event{
		kind: "page", userId: m.UserId, anonymousId: m.AnonymousId, timestamp: m.Timestamp, messageId: m.MessageId,
		texts:   [2]field{{"category", m.Category}, {"name", m.Name}},
		objects: [2]member{{"properties", m.Properties}, {"traits", m.Traits}}, context: m.Context, integrations: m.Integrations,
	}
	if m.Properties == nil {
		e.objects = [2]member{{"properties", m.Traits}}
	}
	return e
}

func (m *Screen) event() event {
	e := (*Page)(m).event()
	e.kind = "screen"
	return e
}

func (m *Group) event() event {
	return event{
		kind: "group", userId: m.UserId, anonymousId: m.AnonymousId, timestamp: m.Timestamp, messageId: m.MessageId,
		texts:   [2]field{{"groupId", m.GroupId}},
		objects: [2]member{{"traits", m.Traits}}, context: m.Context, integrations: m.Integrations,
	}
}

func (m *Alias) event() event {
	return event{
		kind: "alias", userId: m.UserId, timestamp: m.Timestamp, messageId: m.MessageId,
		texts: [2]field{{"previousId", m.PreviousId}}, context: m.Context, integrations: m.Integrations,
	}
}

// check applies the rules of the service, so that a mistake shows where it is made.
func (m *event) check() string {
	switch {
	case m.userId == "" && (m.anonymousId == "" || m.kind == "alias"):
		return "missing_user_id"
	case m.kind == "track" && m.texts[0].value == "":
		return "missing_event"
	case m.kind == "group" && m.texts[0].value == "":
		return "missing_group_id"
	case m.kind == "alias" && m.texts[0].value == "":
		return "missing_previous_id"
	case m.texts[1].name != "" && m.texts[0].value != "" && m.texts[1].value == "":
		return "missing_name"
	case len(m.messageId) > messageIdCharactersMax && utf8.RuneCountInString(m.messageId) > messageIdCharactersMax:
		return "invalid_message_id"
	}
	return ""
}

// defaults are laid under the context and the integrations of every call, encoded once.
type defaults struct {
	context      map[string][]byte
	whole        []byte // the context of a call without its own
	integrations Integrations
}

// write encodes an event. Type and messageId come first, so that a message knows its id by its place.
func (e *encoder) write(m *event, under *defaults) error {
	now := time.Now()
	e.buf = append(append(append(e.buf, `{"type":"`...), m.kind...), `","messageId":"`...)
	if m.messageId == "" {
		e.buf = append(appendMessageId(e.buf, now), '"')
	} else {
		e.buf = appendString(e.buf[:len(e.buf)-1], m.messageId)
	}
	e.buf = append(e.buf, `,"timestamp":`...)
	if m.timestamp == "" {
		e.time(now)
	} else {
		var err error
		if e.buf, err = appendTimestamp(e.buf, m.timestamp); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, ',')
	for _, text := range [...]field{{"userId", m.userId}, {"anonymousId", m.anonymousId}, m.texts[0], m.texts[1]} {
		if text.value != "" {
			e.key(text.name)
			e.buf = append(appendString(e.buf, text.value), ',')
		}
	}
	for _, object := range m.objects {
		if object.value != nil {
			e.key(object.name)
			if err := e.object(object.value, 1); err != nil {
				return err
			}
			e.buf = append(e.buf, ',')
		}
	}
	if err := e.context(m, under); err != nil {
		return err
	}
	e.end('}')
	return nil
}

func (e *encoder) context(m *event, under *defaults) error {
	chosen := m.integrations
	e.buf = append(e.buf, `"context":`...)
	if m.context == nil {
		e.buf = append(e.buf, under.whole...)
	} else {
		e.buf = append(e.buf, '{')
		for name, value := range m.context {
			if name == "integrations" {
				inner, ok := asMap(value)
				if !ok {
					return failure("invalid_field", nil)
				}
				chosen = overlaid(inner, chosen)
				continue
			}
			e.key(name)
			if err := e.value(value, 2); err != nil {
				return err
			}
			e.buf = append(e.buf, ',')
		}
		for name, value := range under.context {
			if _, given := m.context[name]; !given {
				e.key(name)
				e.buf = append(append(e.buf, value...), ',')
			}
		}
		e.end('}')
	}
	e.buf = append(e.buf, ',')
	if chosen = overlaid(under.integrations, chosen); chosen != nil {
		e.buf = append(e.buf, `"integrations":`...)
		if err := e.object(chosen, 1); err != nil {
			return err
		}
	}
	return nil
}

// overlaid returns the entries of both, those of over where both have one. Neither is changed.
func overlaid(under, over Integrations) Integrations {
	if len(under) == 0 && over != nil {
		return over
	}
	if len(over) == 0 {
		return under
	}
	both := make(Integrations, len(under)+len(over))
	for _, each := range [...]Integrations{under, over} {
		for name, value := range each {
			both[name] = value
		}
	}
	return both
}

// asMap reads the integrations of a context, which may be a map of either type.
func asMap(value any) (Integrations, bool) {
	switch given := value.(type) {
	case nil:
		return nil, true
	case Integrations:
		return given, true
	case map[string]any:
		return given, true
	case map[string]bool:
		found := make(Integrations, len(given))
		for name, is := range given {
			found[name] = is
		}
		return found, true
	}
	return nil, false
}

// newDefaults encodes what the options say about every call.
func newDefaults(context Context, integrations Integrations, e *encoder) (made *defaults, err error) {
	defer func() {
		if panicked := recover(); panicked != nil { // as in a call
			err = failure("internal_error", fmt.Errorf("%v", panicked))
		}
	}()
	inner, ok := asMap(context["integrations"])
	if !ok {
		return nil, failure("invalid_field", nil)
	}
	// A copy: the program may go on to change its own, while calls read this one.
	made = &defaults{context: map[string][]byte{}, integrations: maps.Clone(overlaid(inner, integrations))}
	all := Context{"library": map[string]any{"name": libraryName, "version": Version}}
	for name, value := range context {
		all[name] = value
	}
	delete(all, "integrations")
	for name, value := range all {
		from := len(e.buf)
		if err := e.value(value, 2); err != nil {
			return nil, err
		}
		made.context[name] = append([]byte(nil), e.buf[from:]...)
	}
	from := len(e.buf)
	if err := e.object(all, 1); err != nil {
		return nil, err
	}
	made.whole = append([]byte(nil), e.buf[from:]...)
	return made, nil
}

// message is what waits in queues: one event as JSON.
type message []byte

// id reads the messageId, "" when it is no event of ours.
func (m message) id() string {
	var event struct{ MessageId string }
	if json.Unmarshal(m, &event) == nil {
		return event.MessageId
	}
	// A field of another spelling, such as messageID, is the same to encoding/json. Here it may hold anything.
	var fields map[string]any
	_ = json.Unmarshal(m, &fields)
	id, _ := fields["messageId"].(string)
	return id
}
