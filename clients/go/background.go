package hookline

import (
	"bytes"
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// The longest pause before the next try while somebody waits in Flush, unless the service asked for it.
	flushPause = time.Second
	// And when a Flush has just begun: hardly any, but a program that flushes often is no hammer.
	pokedPause = 100 * time.Millisecond
	// How long a goroutine may take to notice that it is to end, once its request was cancelled.
	abortPause = 500 * time.Millisecond
)

// consumer brings messages out of the process and writes one outcome per message into the ledger. Safe for many
// goroutines.
type consumer interface {
	// enqueue takes a copy of a message. The error is written down in the ledger already.
	enqueue(ctx context.Context, m message) error
	// flush sends what was taken before; it returns how many of these have no outcome yet when ctx ends.
	flush(ctx context.Context) int
	// close flushes until ctx ends, then ends goroutines and connections; it returns how many messages were lost.
	close(ctx context.Context) int
	// isSender reports whether this is the goroutine that sends, as it is in a handler: that cannot wait for itself.
	isSender() bool
}

// signals are how the goroutine of a consumer and its callers wait for each other; its lock guards all of them.
type signals struct {
	wake    chan struct{} // the goroutine waits here
	changed chan struct{} // callers wait here for outcomes and for room; closed at the next change, nil while nobody waits
	ended   chan struct{} // closed at the goroutine's end; nil before it began
	abort   context.CancelFunc
	ctx     context.Context // cancelled by abort
	sender  atomic.Uint64   // the number of the goroutine
	isIdle  bool            // waiting for messages, not for its next try
	closing bool
}

func newSignals() signals {
	ctx, abort := context.WithCancel(context.Background())
	return signals{wake: make(chan struct{}, 1), ctx: ctx, abort: abort}
}

func (s *signals) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *signals) notify() {
	if s.changed != nil {
		close(s.changed)
		s.changed = nil
	}
}

func (s *signals) start(run func()) {
	if s.ended == nil && s.ctx.Err() == nil {
		s.ended = make(chan struct{})
		go func() {
			defer close(s.ended)
			s.sender.Store(goroutine())
			run()
		}()
	}
}

func (s *signals) isSender() bool { return isThis(&s.sender) }

// isThis reports whether a number is that of this goroutine.
func isThis(number *atomic.Uint64) bool {
	this := goroutine()
	return this != 0 && this == number.Load()
}

// goroutine returns the number of this goroutine, which nothing but its stack says; 0 where that is written in another way.
func goroutine() uint64 {
	var stack [64]byte
	text := bytes.TrimPrefix(stack[:runtime.Stack(stack[:], false)], []byte("goroutine "))
	text, _, _ = bytes.Cut(text, []byte(" "))
	number, _ := strconv.ParseUint(string(text), 10, 64)
	return number
}

// wait lets go of the lock until something changed; false when ctx or the consumer's goroutine ended first.
func (s *signals) wait(ctx context.Context, mu *sync.Mutex) bool {
	if s.changed == nil {
		s.changed = make(chan struct{})
	}
	changed, ended := s.changed, s.ended
	mu.Unlock()
	defer mu.Lock()
	select {
	case <-changed:
		return true
	case <-ctx.Done():
	case <-s.ctx.Done():
	case <-ended: // by a handler that did not return
	}
	return false
}

// idle lets go of the lock until it is woken, a time is over (none when negative), or all is to end.
func (s *signals) idle(pause time.Duration, mu *sync.Mutex) {
	mu.Unlock()
	defer mu.Lock()
	var over <-chan time.Time
	if pause >= 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-s.wake:
	case <-over:
	case <-s.ctx.Done():
	}
}

// end stops the goroutine in the middle of a request, and waits for it a little.
func (s *signals) end(mu *sync.Mutex) {
	mu.Lock()
	ended := s.ended
	s.abort()
	s.notify()
	mu.Unlock()
	if ended == nil {
		return
	}
	select {
	case <-ended:
	case <-time.After(abortPause): // a transport or a handler of the program does not return
	}
}

// background is a bounded queue in memory and the goroutine that empties it: batches by count or time, one under way at
// a time, so that events arrive in the order of the calls. The goroutine begins with the first message.
type background struct {
	options   *Options
	ledger    *ledger
	transport *transport

	mu sync.Mutex
	signals
	queue     queue
	lastFlush time.Time
	flushTo   int // a position: everything before it is to be sent now
	flushing  int // callers in flush
	poked     bool
	stopAt    time.Time
	underWay  struct{ position, count int }
	left      int // events of batches that the end of time cut off: they are lost
}

func newBackground(o *Options, l *ledger, t *transport) *background {
	return &background{
		options: o, ledger: l, transport: t, signals: newSignals(), lastFlush: time.Now(),
		queue: queue{sizeMax: o.MaxQueueSize, bytesMax: o.MaxQueueBytes},
	}
}

func (b *background) enqueue(ctx context.Context, m message) error {
	displaced, err := b.append(ctx, m)
	b.ledger.lost(displaced, Dropped, "queue_full", codes["queue_full"])
	if err != nil {
		b.ledger.lost([]message{m}, Dropped, err.Code, err.Message)
		return err
	}
	return nil
}

func (b *background) append(ctx context.Context, m message) (displaced []message, err *Error) {
	b.mu.Lock()
	defer b.mu.Unlock() // also when a context panics, such as nil
	if b.closing {
		return nil, ErrClosed
	}
	if !b.queue.hasRoom(len(m)) {
		if displaced, err = b.makeRoom(ctx, len(m)); err != nil {
			return nil, err
		}
	}
	b.queue.append(m)
	b.ledger.queued()
	if b.ended == nil {
		b.start(b.run)
	} else if b.isIdle && (b.queue.count == 1 || b.queue.count >= b.options.FlushAt) {
		b.wakeUp()
	}
	return displaced, nil
}

func (b *background) makeRoom(ctx context.Context, size int) (displaced []message, err *Error) {
	switch b.options.OnFull {
	case DropOld:
		for !b.queue.hasRoom(size) {
			displaced = append(displaced, b.queue.remove(1)...)
		}
		b.notify()
		return displaced, nil
	case Block:
		waiting, cancel := context.WithTimeout(ctx, b.options.BlockTimeout)
		defer cancel()
		canWait := !b.isSender() // asked once: it takes tens of microseconds, and many may wait
		for canWait && !b.closing && !b.queue.hasRoom(size) && b.wait(waiting, &b.mu) {
		}
		if b.closing {
			return nil, ErrClosed
		}
		if b.queue.hasRoom(size) {
			return nil, nil
		}
		if cause := ctx.Err(); cause != nil {
			return nil, failure("queue_full", cause)
		}
	}
	return nil, ErrQueueFull
}

func (b *background) flush(ctx context.Context) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	target := b.queue.end()
	b.flushTo = max(b.flushTo, target)
	b.poked = true
	if b.queue.count > 0 {
		b.start(b.run)
	}
	b.wakeUp()
	if !b.isSender() {
		b.flushing++
		for b.openBefore(target) > 0 && b.wait(ctx, &b.mu) {
		}
		b.flushing--
	}
	return b.openBefore(target)
}

func (b *background) close(ctx context.Context) int {
	b.mu.Lock()
	b.closing = true
	b.stopAt, _ = ctx.Deadline()
	b.notify()
	b.mu.Unlock()
	b.flush(ctx)
	b.end(&b.mu)
	b.mu.Lock()
	rest := b.queue.remove(b.queue.count)
	// Not what the flush returned: the goroutine may have given up its batch before that looked, or sent it afterwards.
	lost := b.left + b.underWay.count + len(rest)
	b.mu.Unlock()
	b.ledger.lost(rest, Dropped, "closed", codes["closed"])
	b.transport.close()
	return lost
}

func (b *background) openBefore(target int) int {
	open := max(0, min(target, b.queue.end())-b.queue.removed)
	return open + max(0, min(b.underWay.count, target-b.underWay.position)) // the batch may hold later ones too
}

func (b *background) run() {
	for b.waitDue() {
		b.mu.Lock()
		position := b.queue.removed
		batch := b.queue.take(b.options.BatchSize)
		b.underWay.position, b.underWay.count = position, len(batch)
		b.lastFlush = time.Now()
		b.notify()
		b.mu.Unlock()
		left := b.deliver(batch)
		b.ledger.lost(left, Dropped, "closed", codes["closed"])
		b.mu.Lock()
		b.left += len(left)
		b.underWay.count = 0
		b.notify()
		b.mu.Unlock()
		if len(left) > 0 {
			return
		}
	}
}

// waitDue waits until there is something to send; false when there never will be.
func (b *background) waitDue() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.ctx.Err() == nil {
		pause := time.Duration(-1)
		if b.queue.count > 0 {
			if b.flushTo > b.queue.removed {
				return true
			}
			pause = time.Until(b.lastFlush.Add(b.options.FlushAfter))
			if b.queue.count >= b.options.FlushAt || pause <= 0 || b.closing {
				b.flushTo = b.queue.end()
				return true
			}
		}
		b.isIdle = true
		b.idle(pause, &b.mu)
		b.isIdle = false
	}
	return false
}

// deliver brings a batch to the service within the retry budget; it returns the messages left when time was over.
func (b *background) deliver(batch []message) (left []message) {
	if len(batch) == 0 {
		return nil
	}
	began, retries := time.Now(), 0
	for tried := false; ; tried = true {
		a := b.transport.send(b.ctx, batch)
		switch {
		case a.code == "":
			settle(b.ledger, batch, &a)
			b.partDone(len(batch))
			return nil
		case b.ctx.Err() != nil:
			return batch
		case !a.isRetryable():
			return b.refused(batch, &a)
		}
		pause := pauseBefore(retries, &a)
		if time.Since(began)+pause > b.options.RetryFor || retries >= b.options.MaxRetries {
			b.ledger.lost(batch, GaveUp, a.code, a.reason)
			b.partDone(len(batch))
			return nil
		}
		if !tried { // nothing is lost yet, but nobody should learn of a wrong endpoint after an hour only
			b.ledger.report(a.code, a.reason+" It is tried again.", 0)
		}
		isWhole, isOver := b.pause(pause, a.asked)
		if isOver {
			return batch
		}
		// A try that a flush brought forward is no retry: a program that flushes often would soon have had them all.
		if isWhole {
			retries++
		}
	}
}

// pause waits for the next try; a flush cuts it short unless the service asked for the pause.
func (b *background) pause(pause time.Duration, asked bool) (isWhole, isOver bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	began := time.Now()
	for b.ctx.Err() == nil {
		until := pause
		if !asked && b.poked {
			until = min(until, pokedPause)
		} else if !asked && b.flushing > 0 {
			until = min(until, flushPause)
		}
		left := until - time.Since(began)
		if !b.stopAt.IsZero() {
			left = min(left, time.Until(b.stopAt))
		}
		if left <= 0 {
			break
		}
		b.idle(left, &b.mu)
	}
	b.poked = false
	isOver = b.ctx.Err() != nil || !b.stopAt.IsZero() && !time.Now().Before(b.stopAt)
	return time.Since(began) >= pause, isOver
}

func (b *background) refused(batch []message, a *answer) (left []message) {
	if (a.status == 400 || a.status == 413) && len(batch) > 1 {
		// One event may spoil the request for the others: look for it by halves.
		middle := len(batch) / 2
		if left = b.deliver(batch[:middle]); len(left) > 0 {
			return batch[middle-len(left):]
		}
		return b.deliver(batch[middle:])
	}
	b.ledger.lost(batch, GaveUp, a.code, a.reason)
	b.partDone(len(batch))
	return nil
}

// partDone says that so many events at the head of the batch under way have their outcome: halves of it come one by one.
func (b *background) partDone(count int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.underWay.position += count
	b.underWay.count -= count
	b.notify()
}

// settle writes down what an accepted batch became.
func settle(l *ledger, batch []message, a *answer) {
	good := batch
	if len(a.rejected) > 0 {
		good = nil
		refused := make(map[int]bool, len(a.rejected))
		for _, r := range a.rejected {
			refused[r.index] = true
			if 0 <= r.index && r.index < len(batch) {
				l.lost(batch[r.index:r.index+1], Rejected, r.code, r.reason)
			}
		}
		for i, m := range batch {
			if !refused[i] {
				good = append(good, m)
			}
		}
	}
	l.accepted(good)
}
