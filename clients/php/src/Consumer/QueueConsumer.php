<?php

declare(strict_types=1);

namespace Hookline\Consumer;

use Hookline\Answer;
use Hookline\Consumer;
use Hookline\Ledger;
use Hookline\Options;
use Hookline\Queue;
use Hookline\Timestamp;

/**
 * What `lib_curl` and `fork_curl` share: a bounded queue that leaves in batches, and when the next try is.
 *
 * PHP has no thread that sends: a call that finds a batch waiting does a step of the work itself. When the service does
 * not take a batch, it stays at the head of the queue, and calls leave it alone until the pause is over.
 *
 * @phpstan-import-type Queued from Ledger
 */
abstract class QueueConsumer implements Consumer
{
    /** Pauses between tries: doubling, with full jitter so that many clients do not come back in step. */
    private const PAUSE_FIRST_SECONDS = 0.25;
    private const PAUSE_MOST_SECONDS = 30.0;
    private const RETRY_AFTER_SECONDS_MAX = 300.0;
    /** The longest pause while somebody waits in `flush`, unless the service asked for it. */
    private const FLUSH_PAUSE_SECONDS = 1.0;
    private const POLL_SECONDS = 0.01;
    /** How long one call may be held up. A batch that was taken after all is known by its messageIds. */
    private const CALL_SECONDS = 2.0;
    /** After a try that took time, calls rest so many times as long: a service that hangs must not slow every page. */
    private const REST_FACTOR = 10;
    private const REST_FROM_SECONDS = 0.5;

    protected readonly Queue $queue;
    /** @var list<int> sizes of the next batches, the next one last, while an event that spoils a batch is looked for */
    private array $parts = [];
    protected bool $isWorking = false;
    private float $oldest = 0.0;
    private int $retries = 0;
    private float $failingSince = 0.0;
    private float $nextTry = 0.0;
    private bool $isAsked = false;
    private bool $isBroughtForward = false;

    public function __construct(protected readonly Options $options, protected readonly Ledger $ledger)
    {
        $this->queue = new Queue($options->max_queue_size, $options->max_queue_bytes);
    }

    public function enqueue(string $messageId, string $body): bool
    {
        $isFull = !$this->queue->hasRoom($body);
        if ($isFull && !$this->makeRoom($body)) {
            $this->ledger->dropped(1, 'queue_full');
            return false;
        }
        $hasWorked = $isFull && $this->options->on_full !== 'drop_old';
        if (count($this->queue) === 0) {
            $this->oldest = self::now();
        }
        $this->queue->append($messageId, $body);
        $this->ledger->queued();
        if ($this->options->debug) {
            $this->flush($this->options->timeout_seconds);
        } elseif (!$hasWorked && $this->isDue()) { // a step of the work may take seconds: a call does one
            $this->work(self::now() + self::CALL_SECONDS, true);
        }
        return true;
    }

    public function flush(float $seconds): int
    {
        $deadline = self::now() + $seconds;
        while (!$this->isWorking) { // a handler may flush in the middle of the work: it cannot wait for itself
            if (!$this->isAsked || self::now() >= $this->nextTry) {
                $this->work($deadline, false);
            }
            $now = self::now();
            $pause = max(0.0, $this->nextTry - $now);
            if ($this->waiting() === 0 || $now >= $deadline || ($this->isAsked && $this->nextTry >= $deadline)) {
                break;
            }
            $this->pause($this->isAsked ? $pause : min(self::FLUSH_PAUSE_SECONDS, $pause), $deadline);
        }
        return $this->waiting();
    }

    public function end(float $seconds, bool $isUnwound = false): void
    {
        if ($this->isWorking && !$isUnwound) { // by a handler or a signal: the rest leaves at the end of the request
            return;
        }
        $this->isWorking = false;
        $this->leave($seconds);
        $this->parts = [];
    }

    public function forked(): void
    {
        $this->queue->clear();
        $this->parts = [];
        $this->isWorking = false;
        $this->begin();
    }

    /** Try to bring out what waits until the deadline, one batch or all; return false when it is time for a pause. */
    abstract protected function step(float $deadline): bool;

    /** Bring out what waits, for so many seconds. */
    protected function leave(float $seconds): void
    {
        $this->flush($seconds);
        $this->ledger->dropped($this->queue->clear(), 'closed');
    }

    /** How many messages have no outcome. */
    public function waiting(): int
    {
        return count($this->queue);
    }

    /**
     * The next batch, which stays in the queue until it is settled or removed.
     *
     * @return list<Queued>
     */
    protected function batch(): array
    {
        return $this->queue->first(array_pop($this->parts) ?? $this->options->batch_size);
    }

    /**
     * Write down what became of the batch at the head of the queue; return false when it is to be tried again later.
     *
     * @param list<Queued> $batch
     */
    protected function settle(array $batch, Answer $answer): bool
    {
        if ($answer->isRetryable()) {
            return $this->later($batch, $answer);
        }
        $this->begin();
        $count = count($batch);
        if (in_array($answer->status, [400, 413], true) && $answer->code !== '' && $count > 1) {
            // One event may spoil the request for the others: look for it by halves.
            array_push($this->parts, $count - intdiv($count, 2), intdiv($count, 2));
            return true;
        }
        $this->queue->remove($count);
        if ($answer->code !== '') {
            $this->ledger->gaveUp($count, $answer->code, $answer->reason);
        } elseif ($answer->status === 0) {
            $this->ledger->handedOver($count);
        } else {
            foreach ($answer->rejected as [$index, $code, $reason]) {
                if (isset($batch[$index])) {
                    unset($batch[$index]);
                    $this->ledger->rejected($code, $reason);
                }
            }
            $this->ledger->accepted(array_values($batch));
        }
        return true;
    }

    protected static function now(): float
    {
        return Timestamp::monotonic();
    }

    /**
     * @param list<Queued> $batch
     */
    private function later(array $batch, Answer $answer): bool
    {
        $now = self::now();
        $asked = $answer->retryAfterSeconds;
        $jitter = random_int(0, 1000) / 1000;
        $pause = $asked === null
            ? min(self::PAUSE_MOST_SECONDS, self::PAUSE_FIRST_SECONDS * 2 ** min($this->retries, 20)) * $jitter
            : min($asked, self::RETRY_AFTER_SECONDS_MAX) + self::PAUSE_FIRST_SECONDS * $jitter;
        $isFirst = $this->failingSince === 0.0;
        if ($isFirst) {
            $this->failingSince = $now;
        }
        $isOver = $now - $this->failingSince + $pause > $this->options->retry_seconds;
        if ($isOver || $this->retries >= $this->options->max_retries) {
            $this->begin();
            $this->queue->remove(count($batch));
            $this->ledger->gaveUp(count($batch), $answer->code, $answer->reason);
            return true;
        }
        if ($this->parts !== []) {
            $this->parts[] = count($batch);
        }
        // A try that a flush brought forward is no retry: a program that flushes often would soon have had them all.
        $this->retries += $this->isBroughtForward ? 0 : 1;
        $this->nextTry = $now + $pause;
        $this->isAsked = $asked !== null;
        if ($isFirst) { // nothing is lost yet, but nobody should learn of a wrong endpoint after an hour only
            $this->ledger->report($answer->code, "$answer->reason It is tried again.");
        }
        return false;
    }

    /** Do steps until there is nothing to send, or it is time for a pause. A flush cuts pauses that nobody asked for. */
    private function work(float $deadline, bool $isCall): void
    {
        $began = self::now();
        $goesOn = false;
        $this->isWorking = true;
        try {
            do {
                $this->isBroughtForward = self::now() < $this->nextTry;
                $goesOn = $this->step($deadline);
                $this->oldest = self::now();
            } while ($goesOn && !$isCall && $this->waiting() > 0 && $this->oldest < $deadline);
        } finally {
            $this->isWorking = false;
        }
        $took = $this->oldest - $began;
        if ($isCall && !$goesOn && $took >= self::REST_FROM_SECONDS) {
            $this->nextTry = max($this->nextTry, $this->oldest + self::REST_FACTOR * $took);
        }
    }

    /** Forget how the last batch fared. */
    private function begin(): void
    {
        $this->retries = 0;
        $this->failingSince = 0.0;
        $this->nextTry = 0.0;
        $this->isAsked = false;
    }

    private function isDue(): bool
    {
        if ($this->isWorking) {
            return false;
        }
        $now = self::now();
        $isFull = count($this->queue) >= ($this->options->flush_at ?? $this->options->batch_size);
        return ($isFull || $now - $this->oldest >= $this->options->flush_after) && $now >= $this->nextTry;
    }

    private function makeRoom(string $body): bool
    {
        if ($this->isWorking) { // a handler's or a signal's call: the batch under way may not be touched
            return false;
        }
        if ($this->options->on_full === 'drop_old') {
            $before = count($this->queue);
            while (!$this->queue->hasRoom($body)) {
                $this->queue->remove(1);
            }
            $this->parts = [];
            $this->ledger->dropped($before - count($this->queue), 'queue_full');
            return true;
        }
        $deadline = self::now() + ($this->options->on_full === 'block' ? $this->options->block_timeout : 0.0);
        do {
            $now = self::now();
            if ($now >= $this->nextTry) {
                $this->work(max($deadline, $now + self::CALL_SECONDS), true);
            }
            if ($this->queue->hasRoom($body)) {
                return true;
            }
            $this->pause(max(self::POLL_SECONDS, $this->nextTry - $now), $deadline);
        } while (self::now() < $deadline);
        return false;
    }

    /** Wait, but not beyond the deadline. `fork_curl` wakes up more often, to see what its processes say. */
    protected function pause(float $seconds, float $deadline): void
    {
        $until = min(self::now() + $seconds, $deadline);
        while (($left = $until - self::now()) > 0) {
            usleep((int) ceil(min($left, 1.0) * 1e6));
        }
    }
}
