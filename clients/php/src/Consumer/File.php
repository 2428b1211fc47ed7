<?php

declare(strict_types=1);

namespace Hookline\Consumer;

use Hookline\Consumer;
use Hookline\FileException;
use Hookline\Files;
use Hookline\HooklineException;
use Hookline\Ledger;
use Hookline\Options;
use Hookline\Timestamp;

/**
 * Each call becomes a line of a log file that many processes write to, for `send.php`, which takes it away by rename.
 *
 * The rules that keep every line whole and none lost; the Python library and both uploaders follow them too:
 *
 * 1. Appending happens under an exclusive `flock` of the open file, and only while the path still names that file.
 * 2. Whoever takes the file away renames it first and then waits for the same lock. A writer that checked the path
 *    before the rename holds the lock until its line is written; one that checks it afterwards opens the new file.
 * 3. A line is one write. What a full disk cut off is taken back before the lock is released; what a killed process
 *    left behind is closed with a line end by the next writer. Either way no line is glued to another's rest.
 *
 * A call returns when its line is written: the end of the process, however it comes, loses nothing. A process that is
 * stopped in its write delays the others by at most a second, once a second: then they give up until it goes on.
 */
final class File implements Consumer
{
    private const LOCK_WAIT_SECONDS = 1.0;
    private const LOCK_PAUSE_SECONDS = 1.0;
    /** How often in one call the file may have been taken away between opening and locking it. */
    private const REOPENS_MAX = 20;

    /** @var resource|null */
    private mixed $file = null;
    /** @var array<mixed> */
    private array $opened = [];
    private int $ownEnd = -1;
    private float $busyUntil = 0.0;
    private bool $isWriting = false;
    /** @var list<string> lines of calls that came in the middle of another one */
    private array $interrupting = [];

    public function __construct(private readonly Options $options, private readonly Ledger $ledger)
    {
    }

    public function enqueue(string $messageId, string $body): bool
    {
        if ($this->isWriting) { // of a signal handler: the call that it interrupted has the lock, and writes this too
            $this->interrupting[] = $body;
            return true;
        }
        $isWritten = $this->keep($body);
        $this->keepInterrupting();
        return $isWritten;
    }

    /** Nothing ever waits. */
    public function flush(float $seconds): int
    {
        return 0;
    }

    /** Nothing ever waits, but for lines of a signal handler. */
    public function waiting(): int
    {
        return count($this->interrupting);
    }

    /** Close the file; a later call opens it again. */
    public function end(float $seconds, bool $isUnwound = false): void
    {
        if ($this->isWriting && !$isUnwound) { // of a signal handler: the call that it interrupted needs the file
            return;
        }
        $this->isWriting = false;
        $this->keepInterrupting();
        $this->file = null;
    }

    /** Open the file anew: the lock of an open file belongs to parent and child together. */
    public function forked(): void
    {
        $this->file = null;
        $this->isWriting = false;
        $this->interrupting = [];
    }

    private function keepInterrupting(): void
    {
        while (($line = array_shift($this->interrupting)) !== null) {
            $this->keep($line);
        }
    }

    private function keep(string $line): bool
    {
        $failure = null;
        $this->isWriting = true;
        try {
            Files::quietly(fn () => $this->append($line));
        } catch (FileException $failure) { // the handler hears of it below: it may make a call
        } finally {
            $this->isWriting = false;
        }
        if ($failure !== null) {
            $code = $failure->getCode() === FileException::BUSY ? 'file_busy' : 'file_failed';
            $sentence = HooklineException::SENTENCES[$code] . ' (' . $failure->getMessage() . ')';
            $this->ledger->dropped(1, $code, $sentence);
            return false;
        }
        $this->ledger->queued();
        $this->ledger->handedOver(1);
        return true;
    }

    private function append(string $line): void
    {
        try {
            $this->write($line, $this->openLocked());
        } finally {
            if ($this->file !== null) {
                flock($this->file, LOCK_UN);
            }
        }
    }

    /** Open the file that the path names, lock it, and return its size. */
    private function openLocked(): int
    {
        $now = Timestamp::monotonic();
        $deadline = $now < $this->busyUntil ? $now : $now + self::LOCK_WAIT_SECONDS;
        for ($turn = 0; $turn < self::REOPENS_MAX; $turn++) {
            if ($this->file === null) {
                $this->file = Files::open($this->options->filename, 'a+', Files::checkLog(...));
                $this->opened = fstat($this->file) ?: Files::fail($this->options->filename);
                $this->ownEnd = -1;
            }
            if (!Files::lock($this->file, $deadline)) {
                $this->busyUntil = Timestamp::monotonic() + self::LOCK_PAUSE_SECONDS;
                throw new FileException("another process holds {$this->options->filename}", FileException::BUSY);
            }
            $named = Files::status($this->options->filename);
            if ($named !== null && Files::isSame($named, $this->opened)) {
                return $named['size'];
            }
            $this->file = null; // which also releases the lock
        }
        throw new FileException("{$this->options->filename} is replaced all the time");
    }

    private function write(string $line, int $size): void
    {
        // Where our own last line ended nothing can be torn; else somebody wrote since, and may have been killed at it.
        $isTorn = $size > 0 && $size !== $this->ownEnd && $this->lastByte() !== "\n";
        $data = ($isTorn ? "\n" : '') . "$line\n";
        $written = fwrite($this->file, $data);
        if ($written !== strlen($data)) {
            $why = $written === false ? 'nothing written' : "only $written bytes written";
            $this->ownEnd = -1;
            if ((fstat($this->file) ?: ['size' => $size])['size'] > $size) {
                ftruncate($this->file, $size);
            }
            Files::fail("{$this->options->filename}, $why");
        }
        $this->ownEnd = $size + $written;
    }

    private function lastByte(): string|false
    {
        fseek($this->file, -1, SEEK_END);
        return fread($this->file, 1);
    }
}
