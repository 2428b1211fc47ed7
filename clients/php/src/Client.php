<?php

declare(strict_types=1);

namespace Hookline;

/**
 * One client of one source: from a call to its consumer, and what happens at forks and at the end of the request.
 *
 * In production no call throws: what is wrong is counted, logged, and told to `error_handler`.
 */
final class Client
{
    /** How long `flush` waits when it is not told. */
    public const FLUSH_SECONDS = 10.0;

    /** @var \WeakMap<self, true>|null those that hear of the end of the request */
    private static ?\WeakMap $living = null;

    private readonly Options $options;
    private readonly Ledger $ledger;
    private readonly Consumer $consumer;
    private readonly bool $isEnabled;
    /** @var array<mixed> */
    private readonly array $context;
    /** @var array<mixed> */
    private readonly array $integrations;
    private bool $isClosed = false;
    private int $process;
    private ?string $lastMessageId = null;
    private int $lostAtFlush = 0;

    /**
     * @param array<mixed> $options
     * @throws HooklineException `invalid_option`
     */
    public function __construct(
        #[\SensitiveParameter] ?string $writeKey = null,
        #[\SensitiveParameter] array $options = [],
    ) {
        $this->options = Options::resolve($writeKey, $options);
        $this->ledger = new Ledger($this->options);
        $this->consumer = match ($this->options->consumer) {
            'socket' => new Consumer\Socket($this->options, $this->ledger),
            'file' => new Consumer\File($this->options, $this->ledger),
            // With an answer to wait for, or another way out, there is no process to fork.
            'fork_curl' => $this->options->debug || $this->options->transport !== null
                ? new Consumer\LibCurl($this->options, $this->ledger)
                : new Consumer\ForkCurl($this->options, $this->ledger),
            default => new Consumer\LibCurl($this->options, $this->ledger),
        };
        $context = $this->options->default_context + ['library' => Message::LIBRARY];
        $inner = $context['integrations'] ?? []; // as in a call's own context
        unset($context['integrations']);
        $this->context = $context;
        $this->integrations = $this->options->default_integrations + (is_array($inner) ? $inner : []);
        $this->isEnabled = $this->options->enabled && $this->hasKey();
        $this->process = (int) getmypid();
        self::$living ??= self::awaitEnd();
        self::$living[$this] = true;
    }

    public function __destruct()
    {
        $this->endOfRequest();
    }

    /**
     * Tie a user to traits. Like the calls below it returns false when the event was not queued.
     *
     * @param array<mixed> $message
     */
    public function identify(array $message): bool
    {
        return $this->call('identify', [$message]);
    }

    /**
     * Record an action.
     *
     * @param array<mixed> $message
     */
    public function track(array $message): bool
    {
        return $this->call('track', [$message]);
    }

    /**
     * Record a page view: an array, or user, category, name, properties, where a single string after the user is the
     * name.
     *
     * @param array<mixed>|string|int|float|null $message not so declared: a user id that is none would throw
     */
    public function page(mixed $message, mixed ...$more): bool
    {
        return $this->call('page', [$message, ...$more]);
    }

    /**
     * Record a screen view, as `page`.
     *
     * @param array<mixed>|string|int|float|null $message
     */
    public function screen(mixed $message, mixed ...$more): bool
    {
        return $this->call('screen', [$message, ...$more]);
    }

    /**
     * Associate a user with a group.
     *
     * @param array<mixed> $message
     */
    public function group(array $message): bool
    {
        return $this->call('group', [$message]);
    }

    /**
     * Associate one identity with another: who was `previousId` is `userId` from now on.
     *
     * @param array<mixed> $message
     */
    public function alias(array $message): bool
    {
        return $this->call('alias', [$message]);
    }

    /** Send what is queued, waiting at most so long; true when nothing waits any more and none was lost since the last. */
    public function flush(float $seconds = self::FLUSH_SECONDS): bool
    {
        $this->noticeFork();
        $waiting = $this->consumer->flush($seconds);
        $lost = $this->lost();
        $isWhole = $waiting === 0 && $lost === $this->lostAtFlush;
        $this->lostAtFlush = $lost;
        return $isWhole;
    }

    /** Flush within `exit_timeout`, or so many seconds, and end: later calls are dropped. */
    public function close(?float $seconds = null): bool
    {
        $this->noticeFork();
        if ($this->isEnded()) {
            return true;
        }
        $this->consumer->end($seconds ?? $this->options->exit_timeout);
        $this->isClosed = true;
        return $this->isEnded() && $this->lost() === $this->lostAtFlush;
    }

    /** How many events have no outcome yet. */
    public function waiting(): int
    {
        $this->noticeFork();
        return $this->consumer->waiting();
    }

    /** The messageId of the last event that was queued, to look it up in the service. */
    public function lastMessageId(): ?string
    {
        return $this->lastMessageId;
    }

    /**
     * Counts since the client was made: queued, accepted, handed_over, rejected, gave_up, dropped, invalid.
     *
     * @return array<string, int>
     */
    public function stats(): array
    {
        return $this->ledger->stats();
    }

    /**
     * Once for all clients, as PHP forgets no shutdown function: a worker that never ends may make a client per job.
     *
     * @return \WeakMap<self, true>
     */
    private static function awaitEnd(): \WeakMap
    {
        register_shutdown_function(static function (): void {
            // Once more from within, to come after the application's own: they may still make calls.
            register_shutdown_function(static function (): void {
                [$living, self::$living] = [self::$living ?? [], null]; // a client that is made now waits anew
                foreach ($living as $client => $_) {
                    $client->endOfRequest();
                }
            });
        });
        return new \WeakMap();
    }

    private function endOfRequest(): void
    {
        $this->noticeFork();
        if (!$this->isEnded()) {
            $this->consumer->end($this->options->exit_timeout, true);
        }
    }

    /** Something is left after a close by a handler in the middle of the work. */
    private function isEnded(): bool
    {
        return $this->isClosed && $this->consumer->waiting() === 0;
    }

    /** @param list<mixed> $given one array, or what page and screen take by place */
    private function call(string $kind, array $given): bool
    {
        try {
            $this->noticeFork();
            $fields = is_array($given[0]) ? $given[0] : Message::view($given);
            $message = Message::build($kind, $fields, $this->context, $this->integrations);
            if ($this->options->before_send !== null) {
                $message = $this->filtered($message, $this->options->before_send);
                if ($message === null) {
                    return false;
                }
            }
            $body = Encoder::encode($message, $this->options->strict);
            if (strlen($body) > Message::BYTES_MAX) {
                throw new HooklineException('event_too_large');
            }
            return $this->isEnabled && $this->queue($kind, $message['messageId'], $body);
        } catch (\Throwable $failure) {
            if ($this->options->strict) {
                throw $failure;
            }
            if ($failure instanceof HooklineException) {
                $this->ledger->invalid($failure->errorCode, $failure->getMessage());
            } else { // values with methods of their own can throw anything
                $shown = get_debug_type($failure) . ': ' . $failure->getMessage();
                $this->ledger->invalid('internal_error', HooklineException::SENTENCES['internal_error'] . " ($shown)");
            }
            return false;
        }
    }

    private function queue(string $kind, string $messageId, string $body): bool
    {
        $this->ledger->logCall($kind, $body);
        if ($this->isClosed) {
            $this->ledger->dropped(1, 'closed');
        } elseif ($this->consumer->enqueue($messageId, $body)) {
            $this->lastMessageId = $messageId;
            return true;
        }
        return $this->options->strict ? throw new HooklineException('not_queued') : false;
    }

    /**
     * The hook gets a copy, as it will be sent: what it changes is neither the caller's nor every call's.
     *
     * @param array<string, mixed> $message
     * @return array<string, mixed>|null
     */
    private function filtered(array $message, \Closure $hook): ?array
    {
        $copy = json_decode(Encoder::encode($message, $this->options->strict), true);
        try {
            $filtered = $hook($copy);
            if (!is_array($filtered)) {
                return null;
            }
            foreach (['properties', 'traits', 'context', 'integrations'] as $field) {
                if (is_array($filtered[$field] ?? null)) { // an empty one would be written as a list
                    $filtered[$field] = (object) $filtered[$field];
                }
            }
            $id = $filtered['messageId'] ?? '';
            $filtered['messageId'] = is_string($id) && $id !== '' ? $id : $message['messageId'];
            return $filtered + ['type' => $message['type'], 'timestamp' => $message['timestamp']];
        } catch (\Throwable $failure) {
            if ($this->options->strict) {
                throw $failure;
            }
            $reason = HooklineException::SENTENCES['before_send_failed'] . ' (' . $failure->getMessage() . ')';
            if ($this->options->before_send_failure === 'pass') {
                $this->ledger->report('before_send_failed', $reason);
                return $message;
            }
            $this->ledger->dropped(1, 'before_send_failed', $reason);
            return null;
        }
    }

    /** In a copy of the process that made the client: what was queued before is the parent's to send. */
    private function noticeFork(): void
    {
        $process = (int) getmypid();
        if ($process !== $this->process) {
            $this->process = $process;
            $this->lostAtFlush = 0;
            $this->ledger->forked();
            $this->consumer->forked();
        }
    }

    private function lost(): int
    {
        $counts = $this->ledger->stats();
        return $counts['rejected'] + $counts['gave_up'] + $counts['dropped'];
    }

    private function hasKey(): bool
    {
        if ($this->options->write_key !== '' || $this->options->transport !== null) {
            return true;
        }
        if ($this->options->strict) {
            throw new HooklineException('missing_write_key');
        }
        $this->ledger->log('warning', HooklineException::SENTENCES['missing_write_key']);
        return false;
    }
}
