package hookline

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	adoptPause   = 10 * time.Second // how often boxes of ended processes are looked for
	syncPause    = time.Second      // events that are not acknowledged after this long are brought to the disk
	refusedPause = time.Minute      // after a refusal that another try will hardly change: somebody has to correct the key
)

var faultPause = time.Second // after the disk failed

// spooled keeps events on disk from the call until they are acknowledged. Its goroutine sends them in the order of the
// calls and never gives one up: while the service is away, or refuses the write key, they wait, for the next process if
// need be. What processes left that are gone is sent as well, one box at a time.
type spooled struct {
	options   *Options
	ledger    *ledger
	transport *transport
	spool     *spool

	mu sync.Mutex
	signals
	queued, finished int // events of this client
	flushTo          int
	flushing         int
	lastFlush        time.Time
	syncing          *time.Timer // nil while nothing is to be brought to the disk

	nextTry   time.Time // in the past while the service takes events
	wasAsked  bool      // by the service, for the pause until then
	refusals  int
	adoptAt   time.Time
	retries   int  // this and the rest belong to the goroutine
	eventsMax int  // of a request: fewer while a bad event is looked for
	adopted   *box // of a process that is gone
}

func newSpooled(writeKey string, o *Options, l *ledger, t *transport) *spooled {
	return &spooled{
		options: o, ledger: l, transport: t, spool: newSpool(o.Spool, writeKey, o.SpoolBytes),
		signals: newSignals(), lastFlush: time.Now(), eventsMax: o.BatchSize,
	}
}

func (s *spooled) enqueue(_ context.Context, m message) error {
	s.mu.Lock()
	err := s.append(m)
	if err == nil {
		s.queued++
		s.ledger.queued()
		if s.syncing == nil {
			s.syncing = time.AfterFunc(syncPause, s.sync)
		}
		waiting := s.queued - s.finished
		if s.ended == nil {
			s.start(s.run)
		} else if s.isIdle && (waiting == 1 || waiting >= s.options.FlushAt) {
			s.wakeUp()
		}
	}
	s.mu.Unlock()
	if err != nil {
		s.ledger.lost([]message{m}, Dropped, err.Code, err.Message)
		return err
	}
	return nil
}

func (s *spooled) append(m message) *Error {
	if s.closing {
		return ErrClosed
	}
	switch err := s.spool.append(m); {
	case err == nil:
		return nil
	case errors.Is(err, errSpoolFull):
		return failure("queue_full", err)
	default:
		return failure("spool_failed", err)
	}
}

// flush also ends when the service refuses: repeating does not help, and the events are safe.
func (s *spooled) flush(ctx context.Context) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	target, refusals := s.queued, s.refusals
	s.flushTo = max(s.flushTo, target)
	if soon := time.Now().Add(pokedPause); !s.wasAsked && s.nextTry.After(soon) {
		s.nextTry = soon
	}
	s.start(s.run)
	s.wakeUp()
	if !s.isSender() {
		s.flushing++
		for s.finished < target && s.refusals == refusals && s.wait(ctx, &s.mu) {
		}
		s.flushing--
	}
	return max(0, target-s.finished)
}

// close loses nothing: what is left stays on disk for the next process.
func (s *spooled) close(ctx context.Context) int {
	s.mu.Lock()
	s.closing = true
	hasBegun := s.ended != nil
	s.mu.Unlock()
	if !hasBegun {
		s.abort()
		return 0
	}
	if left := s.flush(ctx); left > 0 {
		s.ledger.log.Warn("events stay in the spool", "count", left, "spool", s.options.Spool)
	}
	s.end(&s.mu)
	s.mu.Lock()
	if s.syncing != nil {
		s.syncing.Stop()
	}
	s.mu.Unlock()
	s.transport.close()
	return 0
}

func (s *spooled) run() {
	for s.waitDue() {
		s.guard(s.turn())
	}
	s.spool.forgetRemoved()
	for _, b := range []*box{s.spool.own(), s.adopted} {
		if b != nil {
			s.guard(b.close())
		}
	}
}

// waitDue waits until there is something to do; false when all is to end.
func (s *spooled) waitDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.ctx.Err() == nil {
		due := s.adoptAt
		if s.adopted != nil {
			due = s.nextTry
		}
		if s.queued > s.finished {
			own := s.lastFlush.Add(s.options.FlushAfter)
			if s.isFlushDue() || own.Before(s.nextTry) {
				own = s.nextTry
			}
			if own.Before(due) {
				due = own
			}
		}
		pause := time.Until(due)
		if pause <= 0 {
			return true
		}
		s.isIdle = true
		s.idle(pause, &s.mu)
		s.isIdle = false
	}
	return false
}

func (s *spooled) isFlushDue() bool {
	waiting := s.queued - s.finished
	return waiting > 0 && (s.closing || s.flushTo > s.finished || waiting >= s.options.FlushAt ||
		time.Since(s.lastFlush) >= s.options.FlushAfter)
}

// turn does what is due: look for boxes, send a batch of our own, send a batch of a box of somebody who is gone.
func (s *spooled) turn() error {
	if s.adopted == nil && !time.Now().Before(s.adoptAt) {
		s.adoptAt = time.Now().Add(adoptPause)
		var err error
		if s.adopted, err = s.spool.adopt(); err != nil {
			s.failed(err)
		}
	}
	s.mu.Lock()
	isDue := s.isFlushDue()
	if isDue && s.canTry() {
		if s.flushTo <= s.finished {
			s.flushTo = s.queued
		}
		s.lastFlush = time.Now()
	}
	mayTry := s.canTry()
	s.mu.Unlock()
	if isDue && mayTry {
		if err := s.sendOwn(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	mayTry = s.canTry()
	s.mu.Unlock()
	if s.adopted == nil || !mayTry {
		return nil
	}
	found, _, err := s.send(s.adopted, false)
	if found > 0 {
		return nil
	}
	isNextDue := true
	if err == nil {
		err = s.adopted.close()
	}
	if err != nil { // of that box: it must neither keep the others nor slow down what is ours
		s.failed(err)
		isNextDue = s.spool.letGo(s.adopted)
	}
	s.adopted = nil
	if isNextDue {
		s.adoptAt = time.Time{}
	}
	return nil
}

func (s *spooled) canTry() bool { return s.ctx.Err() == nil && !time.Now().Before(s.nextTry) }

func (s *spooled) sendOwn() error {
	found, done, err := s.send(s.spool.own(), true)
	if err != nil {
		return err
	}
	if found == 0 { // events are not where they were written: somebody removed them
		s.mu.Lock() // no call may come between: its event would be in a box that nobody reads
		done = s.queued - s.finished
		s.spool.abandon()
		s.mu.Unlock()
		s.ledger.report("spool_damaged", codes["spool_damaged"], done)
	}
	s.mu.Lock()
	s.finished += done
	s.notify()
	s.mu.Unlock()
	return nil
}

// send brings the first batch of a box to the service: so many lines were found, and so many of them have left the box.
// Outcomes of own events go into the ledger, those of others are only reported.
func (s *spooled) send(b *box, isOwn bool) (found, done int, err error) {
	lines, err := b.read(s.eventsMax, eventsBytesMax)
	if err != nil {
		return 0, 0, err
	}
	messages := make([]message, 0, len(lines))
	for _, line := range lines {
		if line.id() != "" {
			messages = append(messages, line)
		}
	}
	var a answer
	if len(messages) > 0 {
		a = s.transport.send(s.ctx, messages)
	}
	switch {
	case a.code != "" && s.ctx.Err() != nil:
		return len(lines), 0, nil
	case a.code != "" && !a.isAboutContent():
		s.postpone(&a)
		return len(lines), 0, nil
	case a.code != "" && len(lines) > 1:
		s.eventsMax = len(lines) / 2 // one event spoils the request for the others: it is looked for
		return len(lines), 0, nil
	}
	s.mu.Lock()
	s.retries, s.wasAsked = 0, false
	s.mu.Unlock()
	s.eventsMax = min(2*s.eventsMax, s.options.BatchSize)
	if len(lines) == 0 {
		return 0, 0, nil
	}
	if wrong := b.acknowledge(lines); wrong != nil { // only a crash would repeat them
		s.failed(wrong)
	}
	if damaged := len(lines) - len(messages); damaged > 0 { // by a crash of the machine
		s.ledger.report("spool_damaged", codes["spool_damaged"], damaged)
	}
	if a.code != "" { // of a single event
		a = answer{rejected: []rejection{{0, a.code, a.reason}}}
	}
	if isOwn {
		settle(s.ledger, messages, &a)
	} else { // its process is gone, and so is its ledger
		for _, r := range a.rejected {
			s.ledger.report(r.code, r.reason, 1)
		}
	}
	return len(lines), len(lines), nil
}

// postpone sets the time of the next try.
func (s *spooled) postpone(a *answer) {
	if s.retries == 0 || !a.isRetryable() {
		s.ledger.report(a.code, a.reason+" The events wait in the spool.", 0)
	}
	pause := refusedPause
	if a.isRetryable() {
		pause = pauseBefore(s.retries, a)
	}
	s.retries++
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wasAsked = a.asked
	if s.flushing > 0 && !a.asked {
		pause = min(pause, flushPause)
	}
	if !a.isRetryable() {
		s.refusals++
	}
	s.nextTry = time.Now().Add(pause)
	s.notify()
}

// guard tells of a disk that fails, and lets the next try wait a little.
func (s *spooled) guard(err error) {
	if err == nil {
		return
	}
	s.failed(err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextTry = time.Now().Add(faultPause)
	s.adoptAt = later(s.adoptAt, s.nextTry)
}

func (s *spooled) failed(err error) {
	s.ledger.report("spool_failed", failure("spool_failed", err).Message, 0)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sync brings what waits to the disk, also while a request waits for its answer.
func (s *spooled) sync() {
	s.mu.Lock()
	s.syncing = nil
	isNeeded, own := s.queued > s.finished, s.spool.own()
	s.mu.Unlock()
	if !isNeeded || own == nil {
		return
	}
	if err := own.sync(); err != nil {
		s.failed(err)
	}
}
