<?php

declare(strict_types=1);

namespace Hookline;

/**
 * The book of outcomes: consumers write down what became of each event; `stats`, the handlers and the log are told.
 *
 * Handlers are the application's code: what they throw ends in the log. A message is `[messageId, encoded event]`.
 *
 * @phpstan-type Queued array{string, string}
 */
final class Ledger
{
    /** One line in the log per code in so long: a full queue would fill it otherwise. */
    private const LOSS_LOG_SECONDS = 10.0;
    /**
     * A handler that makes a call may be called for its failure, make another, and so on until there is no memory,
     * which ends the program. It is left out when it was called so often within itself: in depth and side by side, for
     * with two such calls the times double at every level.
     */
    private const NESTED_MAX = 50;
    private const NOTHING = [
        'queued' => 0, 'accepted' => 0, 'handed_over' => 0, 'rejected' => 0, 'gave_up' => 0, 'dropped' => 0,
        'invalid' => 0,
    ];

    /** @var array<string, int> */
    private array $totals = self::NOTHING;
    /** @var array<string, array{float, int}> when a code was last logged, and how many events were lost since */
    private array $quiet = [];
    private int $nested = 0;
    private readonly bool $logsAll;

    public function __construct(private readonly Options $options)
    {
        $asked = preg_split('/[\s,]+/', getenv('DEBUG') ?: '') ?: [];
        $this->logsAll = $options->debug || in_array('analytics', $asked, true);
    }

    /** One event was queued. */
    public function queued(): void
    {
        $this->totals['queued']++;
    }

    /**
     * The service has these on disk.
     *
     * @param list<Queued> $messages
     */
    public function accepted(array $messages): void
    {
        $this->totals['accepted'] += count($messages);
        if ($messages !== []) {
            $this->call($this->options->on_success, array_column($messages, 0));
        }
    }

    /** So many left the process; what became of them there is not known here. */
    public function handedOver(int $count): void
    {
        $this->totals['handed_over'] += $count;
    }

    /** The service took the request and refused this event of it. */
    public function rejected(string $code, string $reason): void
    {
        $this->totals['rejected']++;
        $this->report($code, $reason, 1);
    }

    /** The request with so many failed for good. */
    public function gaveUp(int $count, string $code, string $reason): void
    {
        $this->totals['gave_up'] += $count;
        $this->report($code, $reason, $count);
    }

    /** So many never left the queue, or never got into it. */
    public function dropped(int $count, string $code, ?string $reason = null): void
    {
        if ($count > 0) {
            $this->totals['dropped'] += $count;
            $this->report($code, $reason ?? HooklineException::SENTENCES[$code], $count);
        }
    }

    /** A call broke a rule. */
    public function invalid(string $code, string $reason): void
    {
        $this->totals['invalid']++;
        $this->report($code, $reason, 1);
    }

    /** Tell the log, at most once in a while per code, and the error handler; so many events are lost. */
    public function report(string $code, string $reason, int $count = 0): void
    {
        $now = Timestamp::monotonic();
        [$last, $unsaid] = $this->quiet[$code] ?? [-self::LOSS_LOG_SECONDS, 0];
        $says = $now - $last >= self::LOSS_LOG_SECONDS;
        $this->quiet[$code] = $says ? [$now, 0] : [$last, $unsaid + $count];
        if ($says) {
            $this->log('warning', "$code: $reason (events lost: " . ($unsaid + $count) . ')');
        }
        $isOutermost = $this->nested === 0;
        if ($this->nested < self::NESTED_MAX) {
            $this->nested++;
            $this->call($this->options->error_handler, $code, $reason);
        }
        if ($isOutermost) {
            $this->nested = 0;
        }
    }

    /** Write a line to the application's logger; without one to PHP's log, if debug or DEBUG=analytics asks for it. */
    public function log(string $level, string $sentence): void
    {
        try {
            if ($this->options->logger !== null && ($this->logsAll || $level !== 'debug')) {
                $this->options->logger->log($level, $sentence);
            } elseif ($this->logsAll) {
                error_log("hookline $level: $sentence");
            }
        } catch (\Throwable) {
            // The logger is the application's, and a call never throws.
        }
    }

    /** Log a call, as debug asks for. */
    public function logCall(string $kind, string $body): void
    {
        if ($this->logsAll) {
            $this->log('debug', "$kind $body");
        }
    }

    /** @return array<string, int> all counts since the client was made */
    public function stats(): array
    {
        return $this->totals;
    }

    /** Begin anew in a forked child: its parent tells what became of the parent's events. */
    public function forked(): void
    {
        $this->totals = self::NOTHING;
    }

    private function call(?\Closure $handler, mixed ...$arguments): void
    {
        try {
            if ($handler !== null) {
                $handler(...$arguments);
            }
        } catch (\Throwable $failure) {
            $this->log('error', "a handler of the application failed: $failure");
        }
    }
}
