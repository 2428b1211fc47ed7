package hookline

import (
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"time"
)

// Outcome is what can become of an event.
type Outcome string

// The outcomes of events.
const (
	Accepted Outcome = "accepted" // the service has it on disk
	Rejected Outcome = "rejected" // the service refused this event
	GaveUp   Outcome = "gave_up"  // its request failed for good, or for longer than the retry budget
	Dropped  Outcome = "dropped"  // it never left the queue
)

// A Receipt says what became of one event; Code and Reason are empty unless it was lost.
type Receipt struct {
	MessageId string
	Outcome   Outcome
	Code      string
	Reason    string
}

// Stats counts events since the client was made. Invalid ones broke a rule and were never queued.
type Stats struct {
	Queued, Accepted, Rejected, GaveUp, Dropped, Invalid int
}

// FlushResult says what became of the events since the last flush.
type FlushResult struct {
	Accepted, Rejected, GaveUp, Dropped int

	// Waiting counts those that were queued before this flush and are neither acknowledged nor lost yet: not 0 only when
	// the time was over.
	Waiting int
	// Receipts are those of lost events, and with [Options.Receipts] of all.
	Receipts []Receipt
}

// OK reports whether everything queued before is acknowledged, and nothing was lost.
func (r FlushResult) OK() bool { return r.Rejected+r.GaveUp+r.Dropped+r.Waiting == 0 }

const (
	receiptsMax = 100_000 // kept for the next flush; the oldest go first
	// One line in the log per code in so long: a full queue would fill it otherwise.
	lossLogPause = 10 * time.Second
	// A handler that makes a call may be called for its failure, make another, and so on until the stack overflows,
	// which ends the program. It is left out when it is called within itself so often, or where the stack has so many
	// frames. Few, for with two such calls the times double at every level.
	nestedMax  = 8
	framesMost = 5_000
	// A stack with fewer frames is not looked at more closely, which takes long: every level has eight at least.
	framesLeast = 8 * nestedMax
)

// ledger is the book of outcomes: consumers write down what became of each event; flush, stats and the handlers read it.
// Handlers are the program's code: they are called without any lock held, and their panics end in the log.
type ledger struct {
	log          *slog.Logger
	errorHandler func(code, message string)
	onSuccess    func(messageIds []string)
	keepAll      bool

	mu       sync.Mutex
	totals   Stats
	told     Stats
	receipts []Receipt
	quiet    map[string]quiet
}

type quiet struct {
	since  time.Time
	unsaid int
}

func newLedger(options *Options, log *slog.Logger) *ledger {
	return &ledger{
		log: log, errorHandler: options.ErrorHandler, onSuccess: options.OnSuccess, keepAll: options.Receipts,
		quiet: map[string]quiet{},
	}
}

func (l *ledger) queued() {
	l.mu.Lock()
	l.totals.Queued++
	l.mu.Unlock()
}

func (l *ledger) accepted(messages []message) {
	if len(messages) == 0 {
		return
	}
	l.mu.Lock()
	l.totals.Accepted += len(messages)
	if l.keepAll {
		l.keep(messages, Accepted, "", "")
	}
	l.mu.Unlock()
	if l.onSuccess != nil {
		ids := make([]string, len(messages))
		for i, m := range messages {
			ids[i] = m.id()
		}
		l.guarded(func() { l.onSuccess(ids) })
	}
}

// lost writes down that these are lost, and tells it.
func (l *ledger) lost(messages []message, outcome Outcome, code, reason string) {
	if len(messages) == 0 {
		return
	}
	l.mu.Lock()
	switch outcome {
	case Rejected:
		l.totals.Rejected += len(messages)
	case GaveUp:
		l.totals.GaveUp += len(messages)
	default:
		l.totals.Dropped += len(messages)
	}
	l.keep(messages, outcome, code, reason)
	l.mu.Unlock()
	l.report(code, reason, len(messages))
}

// invalid counts a call that broke a rule; there is no event to give a receipt for.
func (l *ledger) invalid(err *Error) {
	l.mu.Lock()
	l.totals.Invalid++
	l.mu.Unlock()
	l.report(err.Code, err.Message, 1)
}

// report tells the log, at most once in a while per code, and the error handler; so many events are lost.
func (l *ledger) report(code, reason string, lost int) {
	now := time.Now()
	l.mu.Lock()
	last := l.quiet[code]
	says := now.Sub(last.since) >= lossLogPause
	if says {
		l.quiet[code] = quiet{since: now}
	} else {
		l.quiet[code] = quiet{last.since, last.unsaid + lost}
	}
	l.mu.Unlock()
	if says {
		l.log.Warn(reason, "code", code, "lost", last.unsaid+lost)
	}
	if l.errorHandler != nil && !isNested() {
		l.guarded(func() { l.errorHandler(code, reason) })
	}
}

func (l *ledger) stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.totals
}

// take returns what happened since the last time; each outcome is told once.
func (l *ledger) take(waiting int) FlushResult {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, told := l.totals, l.told
	result := FlushResult{
		Accepted: now.Accepted - told.Accepted, Rejected: now.Rejected - told.Rejected,
		GaveUp: now.GaveUp - told.GaveUp, Dropped: now.Dropped - told.Dropped,
		Waiting: waiting, Receipts: l.receipts[max(0, len(l.receipts)-receiptsMax):],
	}
	l.told, l.receipts = now, nil
	return result
}

func (l *ledger) keep(messages []message, outcome Outcome, code, reason string) {
	for _, m := range messages {
		l.receipts = append(l.receipts, Receipt{m.id(), outcome, code, reason})
	}
	if len(l.receipts) > receiptsMax+receiptsMax/4 { // seldom: all of them are moved
		l.receipts = append(l.receipts[:0], l.receipts[len(l.receipts)-receiptsMax:]...)
	}
}

// isNested reports whether the handler is on the stack as often as it may be.
func isNested() bool {
	var frame [1]uintptr
	if runtime.Callers(framesLeast, frame[:]) == 0 {
		return false
	}
	if runtime.Callers(framesMost, frame[:]) > 0 {
		return true
	}
	var callers [512]uintptr
	reports := 0
	frames := runtime.CallersFrames(callers[:runtime.Callers(1, callers[:])])
	for more := true; more; {
		var frame runtime.Frame
		if frame, more = frames.Next(); strings.HasSuffix(frame.Function, ".(*ledger).report") {
			reports++
		}
	}
	return reports > nestedMax
}

func (l *ledger) guarded(handler func()) {
	defer func() {
		if wrong := recover(); wrong != nil {
			l.log.Error("a handler of the program panicked", "panic", wrong)
		}
	}()
	handler()
}
