<?php

declare(strict_types=1);

namespace Hookline;

/**
 * From a call to the message that is sent: names, ids, times, context, and the rules of the API.
 *
 * The rules are those of the service, so that a mistake shows where it is made. Whatever else a caller's array holds is
 * carried along.
 */
final class Message
{
    public const VERSION = '0.1.0';
    public const LIBRARY = ['name' => 'hookline-php', 'version' => self::VERSION];
    /** One call, encoded. */
    public const BYTES_MAX = 32_768;
    private const MESSAGE_ID_CHARACTERS_MAX = 512;

    private const STRINGS = [
        'identify' => [],
        'track' => ['event'],
        'page' => ['category', 'name'],
        'screen' => ['category', 'name'],
        'group' => ['groupId'],
        'alias' => ['previousId'],
    ];
    private const OBJECTS = [
        'identify' => 'traits',
        'track' => 'properties',
        'page' => 'properties',
        'screen' => 'properties',
        'group' => 'traits',
        'alias' => null,
    ];
    private const SNAKE = [
        'user_id' => 'userId',
        'anonymous_id' => 'anonymousId',
        'group_id' => 'groupId',
        'previous_id' => 'previousId',
        'message_id' => 'messageId',
    ];
    /** Ours to say, whatever the array holds. */
    private const NOT_CARRIED = ['type' => true, 'writeKey' => true, 'sentAt' => true];

    private static string $seed = '';
    private static int $seedOfProcess = 0;
    private static int $count = 0;

    /**
     * Make the message of a call; HooklineException when it breaks a rule.
     *
     * @param array<mixed> $given with the names of the API
     * @param array<mixed> $context the client's default
     * @param array<mixed> $integrations the client's default
     * @return array<string, mixed>
     */
    public static function build(string $kind, array $given, array $context, array $integrations): array
    {
        $given = self::named($given);
        $now = microtime(true);
        $message = [
            'type' => $kind,
            'messageId' => self::messageId($given['messageId'] ?? '', $now),
            'timestamp' => ($given['timestamp'] ?? '') === ''
                ? Timestamp::iso($now) : Timestamp::of($given['timestamp']),
        ];
        $texts = ['userId', 'anonymousId', ...self::STRINGS[$kind]];
        foreach ($texts as $field) {
            $value = $given[$field] ?? '';
            if ($value !== '') {
                $message[$field] = is_string($value) ? $value : self::text($field, $value);
            }
        }
        self::check($kind, $message);
        $object = self::OBJECTS[$kind];
        if ($object !== null) {
            $isView = $kind === 'page' || $kind === 'screen';
            $value = $given[$object] ?? ($isView ? $given['traits'] ?? null : null);
            if ($value !== null) {
                $message[$object] = (object) self::mapping($object, $value);
            }
            if ($isView && !isset($given[$object])) {
                unset($given['traits']);
            }
            unset($given[$object]);
        }
        $message += self::context($given, $context, $integrations);
        unset($given['messageId'], $given['timestamp'], $given['context'], $given['integrations']);
        foreach ($given as $name => $value) {
            if ($value !== null && !in_array($name, $texts, true)) {
                $message[$name] = $value;
            }
        }
        return $message;
    }

    /**
     * Tell the values of a page or screen call apart: user, category, name, properties, in this order.
     *
     * After the user, a single string is the name: the category comes before it.
     *
     * @param list<mixed> $given
     * @return array<string, mixed>
     */
    public static function view(array $given): array
    {
        $found = [];
        if (is_array(end($given))) {
            $found['properties'] = array_pop($given);
        }
        $found['userId'] = array_shift($given);
        foreach (['name', 'category'] as $field) {
            $found[$field] = array_pop($given);
        }
        if ($given !== []) {
            $order = 'By place come a user, a category, a name and properties, each once.';
            throw new HooklineException('invalid_field', $order);
        }
        return $found;
    }

    /**
     * Return a mapping as an array; `invalid_field` for anything else.
     *
     * @return array<mixed>
     */
    public static function mapping(string $field, mixed $value): array
    {
        $value = match (true) {
            $value instanceof \JsonSerializable => $value->jsonSerialize(),
            $value instanceof \Traversable => iterator_to_array($value),
            default => $value,
        };
        if ($value instanceof \stdClass) { // a mapping, whatever its keys are
            return (array) $value;
        }
        if (is_array($value) && ($value === [] || !array_is_list($value))) {
            return $value;
        }
        $type = is_array($value) ? 'a list' : get_debug_type($value);
        throw new HooklineException('invalid_field', "$field must be a mapping, not $type.");
    }

    /** Make a messageId nobody used before, without asking the system for random bytes on every call. */
    public static function newId(float $now): string
    {
        $process = (int) getmypid();
        if (self::$seedOfProcess !== $process) { // a forked child draws new bits
            self::$seed = bin2hex(random_bytes(8));
            self::$seedOfProcess = $process;
        }
        return sprintf('%x-%s-%x', (int) ($now * 1e6), self::$seed, self::$count++);
    }

    /**
     * @param array<mixed> $given
     * @return array<string, mixed>
     */
    private static function named(array $given): array
    {
        $named = [];
        foreach (array_diff_key($given, self::NOT_CARRIED) as $name => $value) {
            $named[self::SNAKE[$name] ?? (string) $name] = $value;
        }
        return $named;
    }

    /** @param array<string, mixed> $message */
    private static function check(string $kind, array $message): void
    {
        $someone = isset($message['userId']) || ($kind !== 'alias' && isset($message['anonymousId']));
        $missing = match (true) {
            !$someone => 'missing_user_id',
            $kind === 'track' && !isset($message['event']) => 'missing_event',
            $kind === 'group' && !isset($message['groupId']) => 'missing_group_id',
            $kind === 'alias' && !isset($message['previousId']) => 'missing_previous_id',
            isset($message['category']) && !isset($message['name']) => 'missing_name',
            default => null,
        };
        if ($missing !== null) {
            throw new HooklineException($missing);
        }
    }

    /**
     * @param array<string, mixed> $given
     * @param array<mixed> $default
     * @param array<mixed> $integrations
     * @return array<string, mixed>
     */
    private static function context(array $given, array $default, array $integrations): array
    {
        $context = isset($given['context']) ? self::mapping('context', $given['context']) : [];
        $inner = $context['integrations'] ?? []; // the originals allow it here as well
        unset($context['integrations']);
        $chosen = self::mapping('integrations', $given['integrations'] ?? []);
        $chosen += self::mapping('integrations', $inner) + $integrations;
        $said = $chosen !== [] || isset($given['integrations']);
        return ['context' => (object) ($context + $default)] + ($said ? ['integrations' => (object) $chosen] : []);
    }

    private static function messageId(mixed $given, float $now): string
    {
        if ($given === '') {
            return self::newId($now);
        }
        $text = self::text('messageId', $given);
        // Characters where it is UTF-8, else bytes.
        if ((preg_match_all('/./su', $text) ?: strlen($text)) > self::MESSAGE_ID_CHARACTERS_MAX) {
            throw new HooklineException('invalid_message_id');
        }
        return $text;
    }

    private static function text(string $field, mixed $value): string
    {
        // A table's empty cell, as NaN, is nobody, not a user of this name.
        $good = is_string($value) || is_int($value) || (is_float($value) && is_finite($value))
            || $value instanceof \Stringable;
        if (!$good) {
            $type = get_debug_type($value);
            throw new HooklineException('invalid_field', "$field must be a string or a number, not $type.");
        }
        return (string) $value;
    }
}
