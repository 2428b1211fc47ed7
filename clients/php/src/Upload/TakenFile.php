<?php

declare(strict_types=1);

namespace Hookline\Upload;

use Hookline\FileException;
use Hookline\Files;
use Hookline\Timestamp;

/**
 * Takes a log file away from its writers without losing a line, and removes it when all of it is done.
 *
 * Beside `app.log` stand `app.log.uploading` (what was taken) and `app.log.uploading.place` (how far its upload is),
 * the same as the Python library's uploader has, so that either goes on with what the other left. The order of the
 * steps makes every one of them a place to be killed at:
 *
 * 1. No taken file is there: a place that is there belongs to one that is done. It is removed.
 * 2. The log is renamed; from now on writers make a new one.
 * 3. The lock of the taken file is waited for: then its last line is written. It is brought to the disk, so that a
 *    power cut cannot take back what was uploaded and leave a place beyond the end.
 * 4. Batches go out, the place follows. A place that is there belongs to this taken file, because of 1.
 * 5. The taken file is removed, then its place.
 */
final class TakenFile
{
    /** Writers hold the lock for one write. One that was stopped in it is waited for so long, then the next run tries. */
    private const WRITERS_WAIT_SECONDS = 10.0;

    /** Everything before is done. */
    public int $offset = 0;
    /** Names this upload, without a place too: nobody writes any more, so the time of the last write stays. */
    public readonly string $upload;

    /** @param resource $file */
    private function __construct(private readonly string $path, public readonly mixed $file)
    {
        $this->waitForWriters();
        flock($file, LOCK_UN);
        fsync($file) || Files::fail($path);
        $status = fstat($file) ?: Files::fail($path);
        $place = $this->readPlace($status['size']);
        $this->offset = $place['offset_bytes'] ?? 0;
        $this->upload = $place['upload']
            ?? substr(hash('sha256', "{$status['dev']} {$status['ino']} {$status['mtime']} {$status['size']}"), 0, 32);
    }

    /** Go on with what an earlier run left, else take the log away; null when there is nothing to upload. */
    public static function take(string $log): ?self
    {
        $path = "$log.uploading";
        if (Files::status($path) === null) {
            self::removePlace($path);
            $status = Files::status($log);
            if ($status === null) {
                return null;
            }
            Files::checkLog($status, $log); // before it is renamed, which would take it from others
            if ($status['size'] === 0) {
                return null;
            }
            Files::rename($log, $path);
        }
        return new self($path, Files::open($path, 'r+', Files::checkLog(...)));
    }

    public function size(): int
    {
        return (fstat($this->file) ?: Files::fail($this->path))['size'];
    }

    /** Write down how far the upload is; it is on disk afterwards. */
    public function keepPlace(): void
    {
        $place = json_encode(['upload' => $this->upload, 'offset_bytes' => $this->offset], JSON_THROW_ON_ERROR);
        Files::replace("$this->path.place", $place);
    }

    /** Remove the file and its place. False, and nothing done, when it grew: its writer knows no lock. */
    public function remove(): bool
    {
        $this->waitForWriters();
        try {
            if ($this->size() > $this->offset) {
                return false;
            }
            Files::remove($this->path);
        } finally {
            flock($this->file, LOCK_UN);
        }
        self::removePlace($this->path);
        return true;
    }

    private function waitForWriters(): void
    {
        if (!Files::lock($this->file, Timestamp::monotonic() + self::WRITERS_WAIT_SECONDS)) {
            throw new FileException("a process writes to $this->path and does not end", FileException::BUSY);
        }
    }

    /** @return array{upload?: string, offset_bytes?: int} */
    private function readPlace(int $size): array
    {
        if (Files::status("$this->path.place") === null) {
            return [];
        }
        $file = Files::open("$this->path.place", 'r', Files::checkOwn(...));
        $place = json_decode((string) stream_get_contents($file), true);
        $upload = $place['upload'] ?? null;
        $offset = $place['offset_bytes'] ?? null;
        // Beyond the end it is another file's.
        $good = is_string($upload) && is_int($offset) && $offset >= 0 && $offset <= $size;
        return $good ? ['upload' => $upload, 'offset_bytes' => $offset] : [];
    }

    private static function removePlace(string $path): void
    {
        $status = Files::status("$path.place");
        if ($status !== null) {
            Files::checkOwn($status, "$path.place");
            Files::remove("$path.place");
        }
    }
}
