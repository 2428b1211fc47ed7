<?php

declare(strict_types=1);

namespace Hookline;

/**
 * One way out of the process. A consumer takes messages that are encoded already and writes what became of each into
 * the ledger, exactly one outcome per message. It is made without doing anything: files, processes and connections
 * begin with the first message. No method throws. All times are bounds.
 */
interface Consumer
{
    /** Take a message; false when it is refused, and the ledger has it as dropped then. */
    public function enqueue(string $messageId, string $body): bool;

    /** Send what was taken before, and return how many messages have no outcome after so many seconds. */
    public function flush(float $seconds): int;

    /** How many messages have no outcome yet. */
    public function waiting(): int;

    /**
     * Bring out what waits because the request or the client ends; what could not leave is dropped.
     *
     * In the middle of the consumer's own work, as in a handler, it does nothing: it is called again later.
     *
     * @param bool $isUnwound whether an exit or a fatal error may have ended the consumer's own work in the middle
     */
    public function end(float $seconds, bool $isUnwound = false): void;

    /** Begin anew in a copy of the process: the parent sends what it had queued. */
    public function forked(): void;
}
