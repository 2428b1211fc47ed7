<?php

declare(strict_types=1);

namespace Hookline;

/** A way to bring one batch to the service: the option `transport` takes another one than libcurl. */
interface Transport
{
    /**
     * Send one request within so many seconds and return the answer. It never throws and never retries: a fault of the
     * network is an answer with status 0 and a code.
     */
    public function send(BatchRequest $request, float $seconds): Answer;
}
