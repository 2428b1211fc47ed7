package hookline

import (
	"math"
	"regexp"
	"strconv"
	"time"
)

const (
	// Numbers beyond this are milliseconds, as the service has it: as seconds this is the year 5138.
	millisecondsFrom = 1e11
	// The years 1 to 9999.
	secondsMin, secondsMax = -62_135_596_800, 253_402_300_799
)

var (
	isoTime   = regexp.MustCompile(`^\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?\s*([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?)?)?$`)
	epochTime = regexp.MustCompile(`^[+-]?\d{1,15}(\.\d{1,9})?$`)
)

// appendTime writes ISO 8601 in UTC with milliseconds, as the service takes it. The year must be one of 0 to 9999.
func appendTime(b []byte, t time.Time) []byte {
	t = t.UTC()
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = appendDigits(b, year, 4)
	b = appendDigits(append(b, '-'), int(month), 2)
	b = appendDigits(append(b, '-'), day, 2)
	b = appendDigits(append(b, 'T'), hour, 2)
	b = appendDigits(append(b, ':'), minute, 2)
	b = appendDigits(append(b, ':'), second, 2)
	b = appendDigits(append(b, '.'), t.Nanosecond()/1_000_000, 3)
	return append(b, 'Z')
}

func appendDigits(b []byte, number, width int) []byte {
	b = append(b, "0000"[:width]...)
	for at := len(b) - 1; number > 0; at-- {
		b[at] = byte('0' + number%10)
		number /= 10
	}
	return b
}

// appendTimestamp writes what a caller gave as time, with its quotes: ISO 8601 as it is, seconds since the epoch as that.
func appendTimestamp(b []byte, given string) ([]byte, error) {
	if isoTime.MatchString(given) {
		return appendString(b, given), nil // there may be line ends in it, which the service passes over
	}
	if epochTime.MatchString(given) {
		seconds, err := strconv.ParseFloat(given, 64)
		if math.Abs(seconds) > millisecondsFrom {
			seconds /= 1000
		}
		if err == nil && secondsMin <= seconds && seconds <= secondsMax {
			at := time.UnixMilli(int64(math.RoundToEven(seconds * 1000)))
			return append(appendTime(append(b, '"'), at), '"'), nil
		}
	}
	return b, failure("invalid_timestamp", nil)
}
