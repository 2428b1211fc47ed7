<?php

declare(strict_types=1);

namespace Hookline;

/** One client for the whole process: `Hookline::init` once, then the same calls as on a `Client`, from anywhere. */
final class Hookline
{
    private static ?Client $client = null;
    /** @var array<mixed> */
    private static array $given = [];

    /**
     * Make the client of this process. Once: again with the same arguments it is the same client, with others an error,
     * until `close`. Objects and functions among the options are not compared, as frameworks make them for every
     * request.
     *
     * @param array<mixed> $options
     * @throws HooklineException `invalid_option`
     */
    public static function init(
        #[\SensitiveParameter] ?string $writeKey = null,
        #[\SensitiveParameter] array $options = [],
    ): Client {
        $given = [$writeKey, array_map(static fn ($value) => is_object($value) ? 'object' : $value, $options)];
        if (self::$client === null) {
            self::$client = new Client($writeKey, $options);
            self::$given = $given;
        } elseif ($given != self::$given) {
            throw new HooklineException('invalid_option', 'init was called before with other arguments; close() first');
        }
        return self::$client;
    }

    /** The client of this process, null before `init`. */
    public static function client(): ?Client
    {
        return self::$client;
    }

    /** @param array<mixed> $message */
    public static function identify(array $message): bool
    {
        return self::living('identify')?->identify($message) ?? false;
    }

    /** @param array<mixed> $message */
    public static function track(array $message): bool
    {
        return self::living('track')?->track($message) ?? false;
    }

    /** @param array<mixed>|string|int|float|null $message */
    public static function page(mixed $message, mixed ...$more): bool
    {
        return self::living('page')?->page($message, ...$more) ?? false;
    }

    /** @param array<mixed>|string|int|float|null $message */
    public static function screen(mixed $message, mixed ...$more): bool
    {
        return self::living('screen')?->screen($message, ...$more) ?? false;
    }

    /** @param array<mixed> $message */
    public static function group(array $message): bool
    {
        return self::living('group')?->group($message) ?? false;
    }

    /** @param array<mixed> $message */
    public static function alias(array $message): bool
    {
        return self::living('alias')?->alias($message) ?? false;
    }

    /** Send what is queued, waiting at most so long: `Client::flush`. */
    public static function flush(float $seconds = Client::FLUSH_SECONDS): bool
    {
        return self::$client?->flush($seconds) ?? true;
    }

    /** Flush and end: `Client::close`. `init` may be called again then. */
    public static function close(?float $seconds = null): bool
    {
        [$client, self::$client] = [self::$client, null];
        return $client?->close($seconds) ?? true;
    }

    private static function living(string $kind): ?Client
    {
        if (self::$client === null) {
            error_log("hookline: Hookline::init(write key) was not called yet; the $kind call is ignored");
        }
        return self::$client;
    }
}
