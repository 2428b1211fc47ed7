<?php

declare(strict_types=1);

namespace Hookline;

/** Times as the service takes them: ISO 8601 in UTC with milliseconds and Z. What a caller may give is read here. */
final class Timestamp
{
    /** Numbers beyond this are milliseconds, as the service has it: as seconds this is the year 5138. */
    private const MILLISECONDS_FROM = 1e11;
    /** The years 1 to 9999. */
    private const SECONDS_MIN = -62_135_596_800;
    private const SECONDS_MAX = 253_402_300_799;
    private const ISO = '/^\d{4}-\d\d-\d\d'
        . '([Tt ]\d\d:\d\d(:\d\d([.,]\d{1,9})?)?\s*([Zz]|UTC|GMT|[+-]\d\d(:?\d\d)?)?)?$/D';
    private const NUMBER = '/^[+-]?\d{1,15}(\.\d{1,9})?$/D';

    /** Write seconds since the epoch. */
    public static function iso(float $seconds): string
    {
        $milliseconds = (int) round($seconds * 1000);
        $second = (int) floor($milliseconds / 1000);
        return sprintf('%s.%03dZ', gmdate('Y-m-d\TH:i:s', $second), $milliseconds - $second * 1000);
    }

    /** Seconds of a clock that nobody sets, for pauses and deadlines. */
    public static function monotonic(): float
    {
        return hrtime(true) / 1e9;
    }

    /** Read what a caller gave as time; `invalid_timestamp` when it is none. */
    public static function of(mixed $given): string
    {
        if ($given instanceof \DateTimeInterface) {
            // Not through a number: one beyond the year 5138 would be taken for milliseconds.
            $utc = \DateTimeImmutable::createFromInterface($given)->setTimezone(new \DateTimeZone('UTC'));
            if ($utc->getTimestamp() < self::SECONDS_MIN || $utc->getTimestamp() > self::SECONDS_MAX) {
                throw new HooklineException('invalid_timestamp');
            }
            return $utc->format('Y-m-d\TH:i:s.v\Z');
        }
        if (is_string($given)) {
            if (preg_match(self::ISO, $given)) {
                return $given;
            }
            if (preg_match(self::NUMBER, $given)) {
                return self::fromNumber((float) $given);
            }
        } elseif (is_int($given) || is_float($given)) {
            return self::fromNumber((float) $given);
        }
        throw new HooklineException('invalid_timestamp');
    }

    private static function fromNumber(float $number): string
    {
        $seconds = abs($number) > self::MILLISECONDS_FROM ? $number / 1000 : $number;
        if (!($seconds >= self::SECONDS_MIN && $seconds <= self::SECONDS_MAX)) { // NaN as well
            throw new HooklineException('invalid_timestamp');
        }
        return self::iso($seconds);
    }
}
