<?php

declare(strict_types=1);

namespace Hookline\Consumer;

use Hookline\BatchRequest;
use Hookline\Consumer;
use Hookline\CurlTransport;
use Hookline\Ledger;
use Hookline\Options;
use Hookline\Timestamp;

/**
 * Every call is a request over a connection of its own, closed before there is an answer; with `debug` it waits for
 * one.
 *
 * A call takes up to `timeout` seconds of the caller's time. After some in a row took all of them the consumer rests:
 * calls are dropped at once for a while, so that a service that hangs does not make its callers hang.
 */
final class Socket implements Consumer
{
    private const RESTS = 'The service did not answer in time. No request is made for a while.';
    private const TIMEOUTS_MAX = 3;
    /** A rest takes so many times the timeout. */
    private const REST_FACTOR = 10;
    /** With `debug` an answer may take this long at least. */
    private const DEBUG_TIMEOUT_SECONDS = 10.0;

    private CurlTransport $transport;
    private int $timeouts = 0;
    private float $restUntil = 0.0;

    public function __construct(private readonly Options $options, private readonly Ledger $ledger)
    {
        $this->transport = new CurlTransport($options->ca_file);
    }

    public function enqueue(string $messageId, string $body): bool
    {
        $request = new BatchRequest($this->options, [$body]);
        if ($this->options->debug || $this->options->transport !== null) {
            return $this->waitForAnswer($messageId, $request);
        }
        if (Timestamp::monotonic() < $this->restUntil) {
            $this->ledger->dropped(1, 'timed_out', self::RESTS);
            return false;
        }
        $answer = $this->transport->sendOneWay($request, $this->options->timeout_seconds);
        $this->timeouts = $answer->code === 'timed_out' ? $this->timeouts + 1 : 0;
        if ($this->timeouts >= self::TIMEOUTS_MAX) {
            $this->restUntil = Timestamp::monotonic() + self::REST_FACTOR * $this->options->timeout_seconds;
        }
        if ($answer->code !== '') {
            // It was not written to its end, so the service cannot have taken it.
            $this->ledger->dropped(1, $answer->code, $answer->reason);
            return false;
        }
        $this->ledger->queued();
        $this->ledger->handedOver(1);
        return true;
    }

    /** Nothing ever waits. */
    public function flush(float $seconds): int
    {
        return 0;
    }

    /** Nothing ever waits. */
    public function waiting(): int
    {
        return 0;
    }

    /** Nothing ever waits. */
    public function end(float $seconds, bool $isUnwound = false): void
    {
    }

    public function forked(): void
    {
        $this->transport->forget();
    }

    private function waitForAnswer(string $messageId, BatchRequest $request): bool
    {
        $this->ledger->queued();
        $seconds = max($this->options->timeout_seconds, self::DEBUG_TIMEOUT_SECONDS);
        $answer = ($this->options->transport ?? $this->transport)->send($request, $seconds);
        if ($answer->rejected !== []) {
            $this->ledger->rejected($answer->rejected[0][1], $answer->rejected[0][2]);
        } elseif ($answer->code !== '') {
            $this->ledger->gaveUp(1, $answer->code, $answer->reason);
        } else {
            $this->ledger->accepted([[$messageId, '']]);
        }
        return true;
    }
}
