<?php

declare(strict_types=1);

namespace Hookline\Consumer;

use Hookline\Answer;
use Hookline\BatchRequest;
use Hookline\CurlTransport;
use Hookline\Ledger;
use Hookline\Options;
use Hookline\Transport;

/**
 * The usual consumer: calls wait in memory and leave in batches through libcurl, or through the option `transport`.
 *
 * A request that had no answer, or one that says so, is tried again. Nothing else of the answer is looked at, unless
 * `debug`, or unless the request was too large: then its halves are sent.
 */
final class LibCurl extends QueueConsumer
{
    /** The least time a try gets at the end of a request. */
    private const LAST_TRY_SECONDS = 0.05;

    private Transport $transport;

    public function __construct(Options $options, Ledger $ledger)
    {
        parent::__construct($options, $ledger);
        $this->transport = $options->transport ?? new CurlTransport($options->ca_file);
    }

    public function forked(): void
    {
        parent::forked();
        if ($this->transport instanceof CurlTransport) {
            $this->transport->forget();
        }
    }

    protected function step(float $deadline): bool
    {
        $batch = $this->batch();
        if ($batch === []) {
            return true;
        }
        $seconds = max(self::LAST_TRY_SECONDS, min($this->options->timeout_seconds, $deadline - self::now()));
        $request = new BatchRequest($this->options, array_column($batch, 1));
        try {
            $answer = $this->transport->send($request, $seconds);
        } catch (\Throwable $failure) { // of somebody else's transport
            $answer = Answer::lost('connection_failed', $failure->getMessage());
        }
        return $this->settle($batch, $this->options->debug ? $answer : $answer->passedOver());
    }
}
