package hookline

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func encoded(t *testing.T, value any) (string, int) {
	t.Helper()
	warnings := 0
	e := &encoder{warn: func(any, error) { warnings++ }}
	if err := e.value(value, 0); err != nil {
		return err.Error(), warnings
	}
	return string(e.buf), warnings
}

// Values without a word in JSON are written as what they mean.
func TestValues(t *testing.T) {
	type name string
	type numbers []float32
	var nothing *int
	one, moment := 1, time.Date(2025, 11, 20, 8, 0, 0, 123_456_789, time.FixedZone("", 3600))
	for _, each := range []struct {
		value any
		want  string
	}{
		{nil, "null"}, {"a\"\\\n\t\r\x01é😀\u2028", `"a\"\\\n\t\r\u0001é😀` + "\u2028" + `"`}, {"<&>", `"<&>"`},
		{"half \xed\xa0\xbd \xff", `"half ` + strings.Repeat("\ufffd", 3) + " \ufffd" + `"`},
		{true, "true"}, {-5, "-5"}, {uint64(math.MaxUint64), "18446744073709551615"}, {int64(1) << 60, "1152921504606846976"},
		{1.5, "1.5"}, {1e21, "1e+21"}, {1e-7, "1e-07"}, {float32(0.1), "0.1"}, {math.NaN(), "null"}, {math.Inf(-1), "null"},
		{moment, `"2025-11-20T07:00:00.123Z"`}, {&moment, `"2025-11-20T07:00:00.123Z"`}, {time.Time{}.AddDate(20_000, 0, 0), "null"},
		{time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("", -5*3600)), `"9999-12-31T23:59:59.000-05:00"`},
		{name("n"), `"n"`}, {numbers{1, float32(math.NaN())}, "[1,null]"}, {&one, "1"}, {nothing, "null"},
		{map[string]any{}, "{}"}, {map[string]any(nil), "null"}, {map[string]bool{"a": true}, `{"a":true}`}, {map[int]string{7: "x"}, `{"7":"x"}`},
		{[]any{}, "[]"}, {[]string{"a", "b"}, `["a","b"]`}, {[2]int{1, 2}, "[1,2]"}, {[]byte("abc"), `"YWJj"`},
		{json.Number("12.50"), "12.50"}, {json.RawMessage(`{"a": [1]}`), `{"a":[1]}`}, {big.NewInt(7), "7"}, {errors.New("wrong"), `"wrong"`},
		{struct {
			A int `json:"a"`
			B *struct{}
		}{A: 1}, `{"a":1,"B":null}`},
		{(*os.PathError)(nil), "null"},
		{[]big.Int{*big.NewInt(7)}, "[7]"}, {&struct{ N big.Int }{*big.NewInt(7)}, `{"N":7}`}, {[]struct{ N big.Int }{{*big.NewInt(7)}}, `[{"N":7}]`},
		{[]time.Time{moment}, `["2025-11-20T07:00:00.123Z"]`}, {[]time.Duration{5}, "[5]"}, {&[]name{"n"}, `["n"]`}, {[]error{nil, errors.New("x")}, `[null,"x"]`},
	} {
		got, warnings := encoded(t, each.value)
		equal(t, "encoded", got, each.want)
		equal(t, "warnings for "+each.want, warnings, 0)
	}
	for _, value := range []any{make(chan int), func() {}, json.Number("no"), struct{ F float64 }{math.NaN()}} {
		got, warnings := encoded(t, value)
		equal(t, "unknown", got, "null")
		equal(t, "warnings", warnings, 1)
	}
}

// What the service could not read is refused: too deep, or circular.
func TestDepth(t *testing.T) {
	deep := func(levels int) any {
		var value any = 1
		for range levels {
			value = map[string]any{"d": value}
		}
		return value
	}
	type node struct{ Next *node }
	circle := &node{}
	circle.Next = circle
	loop := map[string]any{}
	loop["self"] = loop
	var pointer any
	pointer = &pointer
	for _, value := range []any{deep(nestingMax + 1), circle, loop, pointer, json.RawMessage(strings.Repeat("[", 120) + strings.Repeat("]", 120))} {
		if got, _ := encoded(t, value); !strings.Contains(got, "not_serialisable") {
			t.Errorf("taken: %.80s", got)
		}
	}
	if got, _ := encoded(t, deep(nestingMax)); !json.Valid([]byte(got)) {
		t.Errorf("refused: %.80s", got)
	}
}

// FuzzString: any string becomes JSON that says the same, with U+FFFD for what is no UTF-8.
func FuzzString(f *testing.F) {
	for _, seed := range []string{"", "plain", "é\"\\\x00\x1f\x7f", "\xff\xfe", "\xed\xa0\x80", "\u2028\u2029", "😀", "a\xc3"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		written := appendString(nil, given)
		var read string
		if err := json.Unmarshal(written, &read); err != nil || !utf8.Valid(written) {
			t.Fatalf("%q became %q: %v", given, written, err)
		}
		reference, _ := json.Marshal(given)
		var want string
		_ = json.Unmarshal(reference, &want)
		if read != want {
			t.Fatalf("%q became %q", given, read)
		}
	})
}

// FuzzEncoder: any JSON document, read and written, is the same document as encoding/json writes.
func FuzzEncoder(f *testing.F) {
	for _, seed := range []string{`{}`, `[]`, `{"a":[1,-2.5e-9,null,true,"x"],"b":{"c":{}}}`, `[1e300,1e21,0.000001,-0]`, `"\ud800"`, `{"":""}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, given []byte) {
		var document any
		if json.Unmarshal(given, &document) != nil || bytes.Count(given, []byte("{"))+bytes.Count(given, []byte("[")) >= nestingMax {
			t.Skip()
		}
		e := &encoder{}
		if err := e.value(document, 0); err != nil {
			t.Fatal(err)
		}
		reference, err := json.Marshal(document)
		if err != nil {
			t.Skip()
		}
		var ours, theirs any
		if err := json.Unmarshal(e.buf, &ours); err != nil {
			t.Fatalf("%q: %v", e.buf, err)
		}
		_ = json.Unmarshal(reference, &theirs)
		if !reflect.DeepEqual(ours, theirs) {
			t.Fatalf("%s instead of %s", e.buf, reference)
		}
	})
}

// FuzzTrack: whatever the fields hold, the event is JSON that says the same.
func FuzzTrack(f *testing.F) {
	f.Add("u", "a", "E", "id", "key", "value", 1.5)
	f.Add("\"", "\\", "\x00", "\"}", "\n", "\xff", -1e300)
	under, err := newDefaults(Context{"app": "x"}, Integrations{"All": false}, &encoder{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, user, anonymous, name, id, key, text string, number float64) {
		if user == "" || name == "" || key == "integrations" || key == "app" || key == "library" {
			t.Skip()
		}
		e := &encoder{}
		m := Track{UserId: user, AnonymousId: anonymous, Event: name, MessageId: id, Properties: Properties{key: text}, Context: Context{key: []any{number, text}}}
		call := m.event()
		if err := e.write(&call, under); err != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(e.buf, &got); err != nil || !utf8.Valid(e.buf) {
			t.Fatalf("%q: %v", e.buf, err)
		}
		valid := func(s string) string { return string([]rune(s)) } // U+FFFD for each byte that is no UTF-8
		shown := any(number)
		if math.IsNaN(number) || math.IsInf(number, 0) {
			shown = nil
		}
		want := map[string]any{"type": "track", "userId": valid(user), "event": valid(name), "messageId": valid(id),
			"timestamp": got["timestamp"], "properties": map[string]any{valid(key): valid(text)}, "integrations": map[string]any{"All": false},
			"context": map[string]any{valid(key): []any{shown, valid(text)}, "app": "x", "library": map[string]any{"name": libraryName, "version": Version}}}
		if anonymous != "" {
			want["anonymousId"] = valid(anonymous)
		}
		if id == "" {
			want["messageId"] = got["messageId"]
		}
		if !reflect.DeepEqual(got, want) || message(e.buf).id() != want["messageId"] {
			t.Fatalf("got %v, want %v", got, want)
		}
	})
}

// Times that the service reads are passed on or written as it does; others are refused.
func TestTimestamps(t *testing.T) {
	for given, want := range map[string]string{
		"2025-11-20T07:00:00Z": "2025-11-20T07:00:00Z", "2025-11-20": "2025-11-20", "2025-11-20 07:00:00,5+0100": "2025-11-20 07:00:00,5+0100",
		"1763622000": "2025-11-20T07:00:00.000Z", "1763622000.1256": "2025-11-20T07:00:00.126Z", "1763622000125": "2025-11-20T07:00:00.125Z",
		"-1": "1969-12-31T23:59:59.000Z", "yesterday": "", "2025-11-20T7:00": "", "999999999999999": "", "NaN": "", "2025-11-20T07:00:00Z\n": "",
		"2025-11-20T07:00:00\n": "2025-11-20T07:00:00\n",
	} {
		got, err := appendTimestamp(nil, given)
		if want == "" && err == nil || want != "" && string(got) != strconv.Quote(want) {
			t.Errorf("%s: got %s (%v), want %s", given, got, err, want)
		}
	}
}
