<?php

declare(strict_types=1);

namespace Hookline;

/**
 * Files that this user put where they are, locked and brought to the disk; what anybody else put there is not used.
 *
 * In a folder like /tmp somebody could be there first, to read what is written, to have something else sent, or to make
 * a run believe that what waits was sent already. Nothing is removed or changed that is not trusted. Whatever fails is
 * a FileException; PHP's own warnings do not reach the application.
 *
 * @phpstan-type Status array{dev: int, ino: int, mode: int, nlink: int, uid: int, size: int, mtime: int}
 */
final class Files
{
    private const KIND = 0170000;
    private const REGULAR = 0100000;
    private const OTHERS_WRITE = 0022;
    private const EVERYONE_WRITES = 0002;
    private const LOCK_POLL_FIRST_SECONDS = 0.00005;
    private const LOCK_POLL_MAX_SECONDS = 0.005;

    private static string $said = '';
    private static ?int $user = null;

    /**
     * Do work without PHP's warnings; what they say is kept for `fail`.
     *
     * @template T
     * @param \Closure(): T $work
     * @return T
     */
    public static function quietly(\Closure $work): mixed
    {
        self::$said = '';
        set_error_handler(static function (int $level, string $sentence): bool {
            self::$said = $sentence;
            return true;
        });
        try {
            return $work();
        } finally {
            restore_error_handler();
        }
    }

    /** Give up on what a call of PHP just failed at. */
    public static function fail(string $what): never
    {
        $isFull = preg_match('/errno=(28|122|27)\b|No space left|quota exceeded|File too large/i', self::$said) === 1;
        throw new FileException(trim("$what: " . self::$said, ': '), $isFull ? FileException::NO_ROOM : 0);
    }

    /**
     * Return what is at the path itself, a link not followed; null when there is nothing.
     *
     * @return Status|null
     */
    public static function status(string $path): ?array
    {
        clearstatcache(true, $path);
        return lstat($path) ?: null;
    }

    /**
     * Open a file that `check` likes, which the mode may make with mode 0600.
     *
     * @param \Closure(Status, string): void $check
     * @return resource
     */
    public static function open(string $path, string $mode, \Closure $check): mixed
    {
        $there = self::status($path);
        if ($there !== null) { // first: opening a pipe can hang, and a link can lead elsewhere
            $check($there, $path);
        }
        $before = umask(0077);
        try {
            $file = fopen($path, $mode . 'en'); // closed in processes we start; never waits
        } finally {
            umask($before);
        }
        if ($file === false) {
            self::fail($path);
        }
        stream_set_read_buffer($file, 0);
        $opened = fstat($file) ?: self::fail($path);
        $named = self::status($path);
        if ($named !== null && !self::isSame($named, $opened) && ($named['mode'] & self::KIND) !== self::REGULAR) {
            throw new FileException("$path is not a regular file", FileException::NOT_TRUSTED);
        }
        $check($opened, $path);
        return $file;
    }

    /**
     * Whether both are one file.
     *
     * @param Status $one
     * @param Status $other
     */
    public static function isSame(array $one, array $other): bool
    {
        return $one['ino'] === $other['ino'] && $one['dev'] === $other['dev'];
    }

    /**
     * A log must be a regular file and, in a folder that everyone may write to, ours or root's.
     *
     * Elsewhere it may be anybody's who may write there: applications of several users may share a log.
     *
     * @param Status $status
     */
    public static function checkLog(array $status, string $path): void
    {
        self::trust(($status['mode'] & self::KIND) === self::REGULAR, $path, 'is not a regular file');
        $folder = stat(dirname($path)) ?: self::fail(dirname($path));
        if ($folder['mode'] & self::EVERYONE_WRITES) {
            self::trust(in_array($status['uid'], [self::user(), 0], true), $path, 'belongs to another user');
            // The same file under a name that somebody else chose.
            self::trust($status['nlink'] <= 1, $path, 'has another name as well');
        }
    }

    /**
     * A file of ours must be a regular one of this user, with no other name, that nobody else may write to.
     *
     * @param Status $status
     */
    public static function checkOwn(array $status, string $path): void
    {
        self::trust(($status['mode'] & self::KIND) === self::REGULAR, $path, 'is not a regular file');
        self::trust($status['uid'] === self::user(), $path, 'belongs to another user');
        self::trust(!($status['mode'] & self::OTHERS_WRITE), $path, 'may be written to by others');
        self::trust($status['nlink'] <= 1, $path, 'has another name as well');
    }

    /**
     * Wait for the lock of an open file until the deadline (`Timestamp::monotonic`); return false when it is over.
     *
     * @param resource $file
     */
    public static function lock(mixed $file, float $deadline): bool
    {
        $pause = self::LOCK_POLL_FIRST_SECONDS;
        while (!flock($file, LOCK_EX | LOCK_NB)) {
            if (Timestamp::monotonic() >= $deadline) {
                return false;
            }
            usleep((int) ($pause * 1e6));
            $pause = min(2 * $pause, self::LOCK_POLL_MAX_SECONDS);
        }
        return true;
    }

    /** Put data at the path, a file of ours: after a crash there is the old content or the new, never a part. */
    public static function replace(string $path, string $data): void
    {
        $file = self::open("$path.new", 'c', self::checkOwn(...));
        $good = ftruncate($file, 0) && fwrite($file, $data) === strlen($data) && fflush($file) && fsync($file);
        if (!$good) {
            unlink("$path.new");
            self::fail($path);
        }
        self::rename("$path.new", $path);
    }

    /** Rename a file within its folder. */
    public static function rename(string $old, string $new): void
    {
        rename($old, $new) || self::fail($new);
        self::syncFolder($new);
    }

    /** Remove a file. */
    public static function remove(string $path): void
    {
        unlink($path) || self::fail($path);
        self::syncFolder($path);
    }

    /** Bring the names in the folder of the path to the disk. */
    public static function syncFolder(string $path): void
    {
        $folder = fopen(dirname($path), 'r') ?: self::fail(dirname($path));
        fsync($folder) || self::fail(dirname($path));
    }

    /**
     * Return a file that holds the content, placed at its beginning, and has no name: for what another process of ours
     * must read and nobody else may see.
     *
     * @return resource
     */
    public static function nameless(string $content): mixed
    {
        $path = tempnam(sys_get_temp_dir(), 'hookline');
        $file = $path === false ? false : fopen($path, 'r+');
        if ($path === false || $file === false || !unlink($path)) {
            self::fail('no temporary file');
        }
        if (fwrite($file, $content) !== strlen($content) || !fflush($file) || !rewind($file)) {
            self::fail('no temporary file');
        }
        return $file;
    }

    private static function trust(bool $good, string $path, string $reason): void
    {
        if (!$good) {
            $advice = 'see who put it there and move it away, or use a folder of your own';
            throw new FileException("$path $reason: $advice", FileException::NOT_TRUSTED);
        }
    }

    /** The user we are for the file system. Only an extension would say so; a file of ours does as well. */
    private static function user(): int
    {
        return self::$user ??= (fstat(self::nameless('')) ?: self::fail('no temporary file'))['uid'];
    }
}
