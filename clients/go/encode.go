package hookline

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// nestingMax bounds the depth of a message: the service takes 128 levels, the batch around it included.
const nestingMax = 100

var errNotSerialisable = failure("not_serialisable", nil)

// encoder appends JSON to a buffer that is used again. Strings become valid UTF-8; NaN and the infinities, and values
// that JSON has no word for, become null, the latter with a line in the log. Keys of maps come in no order.
type encoder struct {
	buf  []byte
	warn func(value any, err error)
}

func (e *encoder) value(value any, depth int) error {
	switch v := value.(type) {
	case nil:
		e.null()
	case string:
		e.buf = appendString(e.buf, v)
	case bool:
		e.buf = strconv.AppendBool(e.buf, v)
	case int:
		e.buf = strconv.AppendInt(e.buf, int64(v), 10)
	case int64:
		e.buf = strconv.AppendInt(e.buf, v, 10)
	case float64:
		e.float(v, 64)
	case map[string]any:
		return e.object(v, depth)
	case []any:
		return list(e, v, depth)
	case []map[string]any:
		return list(e, v, depth)
	case []string:
		return list(e, v, depth)
	case time.Time:
		e.time(v)
	case json.Number:
		return e.marshal(v, depth)
	default:
		return e.other(value, depth)
	}
	return nil
}

func (e *encoder) object(object map[string]any, depth int) error {
	if depth >= nestingMax {
		return errNotSerialisable
	}
	if object == nil {
		e.null()
		return nil
	}
	e.buf = append(e.buf, '{')
	for key, value := range object {
		e.key(key)
		if err := e.value(value, depth+1); err != nil {
			return err
		}
		e.buf = append(e.buf, ',')
	}
	e.end('}')
	return nil
}

// key writes a member's name and the colon.
func (e *encoder) key(name string) { e.buf = append(appendString(e.buf, name), ':') }

func (e *encoder) null() { e.buf = append(e.buf, "null"...) }

// end closes an object or list whose members have a comma behind each.
func (e *encoder) end(closing byte) {
	if last := len(e.buf) - 1; e.buf[last] == ',' {
		e.buf[last] = closing
	} else {
		e.buf = append(e.buf, closing)
	}
}

func list[T any](e *encoder, values []T, depth int) error {
	if depth >= nestingMax {
		return errNotSerialisable
	}
	if values == nil {
		e.null()
		return nil
	}
	e.buf = append(e.buf, '[')
	for _, value := range values {
		if err := e.value(value, depth+1); err != nil {
			return err
		}
		e.buf = append(e.buf, ',')
	}
	e.end(']')
	return nil
}

func (e *encoder) float(number float64, bits int) {
	if math.IsNaN(number) || math.IsInf(number, 0) {
		e.null()
		return
	}
	format, size := byte('f'), math.Abs(number)
	if size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	e.buf = strconv.AppendFloat(e.buf, number, format, -1, bits)
}

func (e *encoder) time(t time.Time) {
	switch isYear := func(year int) bool { return 0 <= year && year <= 9999 }; {
	case isYear(t.UTC().Year()):
		e.buf = append(appendTime(append(e.buf, '"'), t), '"')
	case isYear(t.Year()): // the last of years, west of UTC
		e.buf = append(t.AppendFormat(append(e.buf, '"'), "2006-01-02T15:04:05.000Z07:00"), '"')
	default:
		e.null()
	}
}

// other writes what is met seldom: what knows how to write itself, named types, pointers, structs.
func (e *encoder) other(value any, depth int) error {
	switch v := value.(type) {
	case *time.Time:
		if v == nil {
			e.null()
		} else {
			e.time(*v)
		}
		return nil
	case json.Marshaler, encoding.TextMarshaler:
		return e.marshal(value, depth)
	case error:
		if pointer := reflect.ValueOf(v); pointer.Kind() == reflect.Pointer && pointer.IsNil() { // its method may need more
			e.null()
			return nil
		}
		return e.value(v.Error(), depth)
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.String:
		e.buf = appendString(e.buf, v.String())
	case reflect.Bool:
		e.buf = strconv.AppendBool(e.buf, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.buf = strconv.AppendInt(e.buf, v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		e.buf = strconv.AppendUint(e.buf, v.Uint(), 10)
	case reflect.Float32, reflect.Float64:
		e.float(v.Float(), v.Type().Bits())
	case reflect.Pointer:
		if v.IsNil() {
			e.null()
			return nil
		}
		if depth >= nestingMax { // a pointer to itself is no level of JSON, and never ends
			return errNotSerialisable
		}
		if v.Elem().Kind() == reflect.Struct { // by its address: fields may have methods with pointer receivers
			return e.marshal(value, depth)
		}
		return e.value(v.Elem().Interface(), depth+1)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return e.marshal(value, depth)
		}
		return e.reflected(v, depth)
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return e.marshal(value, depth)
		}
		return e.reflected(v, depth)
	default:
		return e.marshal(value, depth)
	}
	return nil
}

func (e *encoder) reflected(v reflect.Value, depth int) error {
	if depth >= nestingMax {
		return errNotSerialisable
	}
	if v.Kind() != reflect.Array && v.IsNil() {
		e.null()
		return nil
	}
	if v.Kind() == reflect.Map {
		e.buf = append(e.buf, '{')
		for each := v.MapRange(); each.Next(); {
			e.key(each.Key().String())
			if err := e.value(each.Value().Interface(), depth+1); err != nil {
				return err
			}
			e.buf = append(e.buf, ',')
		}
		e.end('}')
		return nil
	}
	element := v.Type().Elem()
	hasMethods := element.Kind() == reflect.Struct || reflect.PointerTo(element).NumMethod() > 0
	e.buf = append(e.buf, '[')
	for i := range v.Len() {
		item := v.Index(i)
		if hasMethods && item.CanAddr() { // maybe with pointer receivers, such as those of big.Int
			item = item.Addr()
		}
		if err := e.value(item.Interface(), depth+1); err != nil {
			return err
		}
		e.buf = append(e.buf, ',')
	}
	e.end(']')
	return nil
}

// marshal leaves a value to encoding/json.
func (e *encoder) marshal(value any, depth int) error {
	var text bytes.Buffer
	writer := json.NewEncoder(&text)
	writer.SetEscapeHTML(false)
	if err := writer.Encode(value); err != nil {
		var unsupported *json.UnsupportedValueError
		if errors.As(err, &unsupported) && strings.HasPrefix(unsupported.Str, "encountered a cycle") {
			return errNotSerialisable
		}
		e.warn(value, err) // of a NaN in a struct too: all of the struct is gone
		e.null()
		return nil
	}
	written := bytes.TrimSuffix(text.Bytes(), []byte("\n"))
	if depth+nesting(written) > nestingMax {
		return errNotSerialisable
	}
	e.buf = append(e.buf, bytes.ToValidUTF8(written, []byte("\ufffd"))...) // a json.RawMessage may hold anything
	return nil
}

// nesting counts the levels of valid JSON.
func nesting(text []byte) int {
	depth, most, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == '{' || c == '['):
			depth++
			most = max(most, depth)
		case !quoted && (c == '}' || c == ']'):
			depth--
		}
	}
	return most
}

const hexDigits = "0123456789abcdef"

// appendString writes a string with its quotes; bytes that are no UTF-8 become U+FFFD.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if r, size := utf8.DecodeRuneInString(s[i:]); r != utf8.RuneError || size > 1 {
				i += size
				continue
			}
		}
		b = append(b, s[start:i]...)
		switch {
		case c >= utf8.RuneSelf:
			b = append(b, "\ufffd"...)
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c == '\n':
			b = append(b, '\\', 'n')
		case c == '\t':
			b = append(b, '\\', 't')
		case c == '\r':
			b = append(b, '\\', 'r')
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	return append(append(b, s[start:]...), '"')
}
