<?php

declare(strict_types=1);

namespace Hookline;

/**
 * From a message to its bytes, once: compact JSON in UTF-8 that the service takes.
 *
 * What JSON has no word for is written as what it most likely means: times in ISO 8601, enums as their value, objects
 * as they write themselves. NaN, the infinities and anything else are null; bytes that are no UTF-8 are replaced.
 */
final class Encoder
{
    /** The service takes 128, the batch around a message included; deeper things are refused here. */
    private const LEVELS_MAX = 100;
    private const FLAGS = JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_UNESCAPED_LINE_TERMINATORS
        | JSON_PRESERVE_ZERO_FRACTION | JSON_INVALID_UTF8_SUBSTITUTE | JSON_THROW_ON_ERROR;

    /**
     * Return the bytes of a message; `not_serialisable` when it is circular or too deep, or, if strict, not JSON.
     *
     * @param array<string, mixed> $message
     */
    public static function encode(array $message, bool $strict = false): string
    {
        return json_encode(self::plain($message, $strict, 0), self::FLAGS, 2 * self::LEVELS_MAX);
    }

    private static function plain(mixed $value, bool $strict, int $level): mixed
    {
        if (is_string($value) || is_int($value) || is_bool($value) || $value === null) {
            return $value;
        }
        if (is_float($value)) {
            return is_finite($value) ? $value : null;
        }
        if ($level > self::LEVELS_MAX) { // an array or object that holds itself ends here too
            throw new HooklineException('not_serialisable');
        }
        if (is_array($value)) {
            $plain = []; // not the copy: an item may be a reference, and what is written there is the caller's
            foreach ($value as $key => $item) {
                $plain[$key] = is_string($item) || is_int($item) ? $item : self::plain($item, $strict, $level + 1);
            }
            return $plain;
        }
        if ($value instanceof \stdClass) {
            return (object) self::plain((array) $value, $strict, $level);
        }
        return self::plain(self::meaning($value, $strict), $strict, $level + 1);
    }

    private static function time(\DateTimeInterface $value): ?string
    {
        try {
            return Timestamp::of($value);
        } catch (HooklineException) { // in UTC it is in no year, as the end of 9999 is west of it
            return strlen($value->format('Y')) === 4 ? $value->format('Y-m-d\TH:i:s.vP') : null;
        }
    }

    private static function meaning(mixed $value, bool $strict): mixed
    {
        return match (true) {
            $value instanceof \DateTimeInterface => self::time($value),
            $value instanceof \BackedEnum => $value->value,
            $value instanceof \UnitEnum => $value->name,
            $value instanceof \JsonSerializable => $value->jsonSerialize(),
            $value instanceof \Traversable => iterator_to_array($value),
            $value instanceof \Stringable => (string) $value,
            $strict => throw new HooklineException(
                'not_serialisable',
                'A value of type ' . get_debug_type($value) . ' cannot be written as JSON.'
            ),
            default => null,
        };
    }
}
