<?php

declare(strict_types=1);

namespace Hookline;

/**
 * Every option of a client with its default; what is wrong is said by name.
 *
 * Properties have the options' own names, so that one list serves the array, the environment and the code. An option
 * given in code wins over the environment (`HOOKLINE_CLIENT_BATCH_SIZE`), which wins over the default. Times are
 * seconds.
 */
final class Options
{
    public const CONSUMERS = ['lib_curl', 'fork_curl', 'socket', 'file'];
    private const ENVIRONMENT_PREFIX = 'HOOKLINE_CLIENT_';
    private const HTTP_TIMEOUT_SECONDS = 10.0;
    private const SOCKET_TIMEOUT_SECONDS = 0.5;

    /** Kind of each option, and for numbers the least and the most. */
    private const RULES = [
        'write_key' => ['text'],
        'endpoint' => ['text'],
        'consumer' => ['choice', self::CONSUMERS],
        'flush_at' => ['count', 1, 1_000_000],
        'flush_after' => ['seconds', 0.001, 86_400.0],
        'debug' => ['switch'],
        'ssl' => ['switch'],
        'error_handler' => ['callable'],
        'max_queue_size' => ['count', 1, 10_000_000],
        'max_queue_bytes' => ['count', 1, 1 << 40],
        'batch_size' => ['count', 1, BatchRequest::EVENTS_MAX],
        'timeout' => ['seconds', 0.001, 3_600.0],
        'filename' => ['text'],
        'on_full' => ['choice', ['drop_new', 'drop_old', 'block']],
        'block_timeout' => ['seconds', 0.0, 3_600.0],
        'gzip' => ['switch'],
        'max_retries' => ['count', 0, 1_000_000],
        'retry_seconds' => ['seconds', 0.0, 604_800.0],
        'ca_file' => ['text'],
        'before_send' => ['callable'],
        'before_send_failure' => ['choice', ['drop', 'pass']],
        'default_context' => ['mapping'],
        'default_integrations' => ['mapping'],
        'enabled' => ['switch'],
        'on_success' => ['callable'],
        'strict' => ['switch'],
        'exit_timeout' => ['seconds', 0.0, 3_600.0],
        'logger' => ['logger'],
        'transport' => ['transport'],
    ];

    /** Where batches go, and `timeout` with its default. */
    public readonly string $url;
    public readonly float $timeout_seconds;

    /**
     * @param string $write_key The source's write key. Without one nothing is sent, and the log says so.
     * @param string $endpoint URL of the service; without a scheme `ssl` decides. `host` is another name of it.
     * @param int|null $flush_at Send when so many events wait; unset is `batch_size`.
     * @param float $flush_after Send with the next call when an event has waited so long.
     * @param float|null $timeout For one exchange with the service; unset means 0.5 for `socket`, 10 for the others.
     * @param \Closure|null $error_handler Called with a code and a sentence for whatever is lost.
     * @param array<mixed> $default_context Laid under the context of every call.
     * @param array<mixed> $default_integrations Laid under the integrations of every call.
     * @param object|null $logger Anything with PSR-3's method `log`.
     */
    private function __construct(
        #[\SensitiveParameter] public readonly string $write_key = '',
        public readonly string $endpoint = 'http://127.0.0.1:8080',
        public readonly string $consumer = 'lib_curl',
        public readonly ?int $flush_at = null,
        public readonly float $flush_after = 5.0,
        public readonly bool $debug = false,
        public readonly bool $ssl = true,
        public readonly ?\Closure $error_handler = null,
        public readonly int $max_queue_size = 10_000,
        public readonly int $max_queue_bytes = 32 * 1024 * 1024,
        public readonly int $batch_size = 100,
        public readonly ?float $timeout = null,
        public readonly string $filename = '/tmp/analytics.log',
        public readonly string $on_full = 'drop_new',
        public readonly float $block_timeout = 1.0,
        public readonly bool $gzip = false,
        public readonly int $max_retries = 10_000,
        public readonly float $retry_seconds = 3_600.0,
        public readonly ?string $ca_file = null,
        public readonly ?\Closure $before_send = null,
        public readonly string $before_send_failure = 'drop',
        public readonly array $default_context = [],
        public readonly array $default_integrations = [],
        public readonly bool $enabled = true,
        public readonly ?\Closure $on_success = null,
        public readonly bool $strict = false,
        public readonly float $exit_timeout = 2.0,
        public readonly ?object $logger = null,
        public readonly ?Transport $transport = null,
    ) {
        $this->url = self::url($endpoint, $ssl);
        $usual = $consumer === 'socket' ? self::SOCKET_TIMEOUT_SECONDS : self::HTTP_TIMEOUT_SECONDS;
        $this->timeout_seconds = $timeout ?? $usual;
    }

    /**
     * Return the options in force.
     *
     * @param array<mixed> $given
     * @throws HooklineException `invalid_option`, which names the one that is wrong
     */
    public static function resolve(#[\SensitiveParameter] ?string $writeKey, #[\SensitiveParameter] array $given): self
    {
        $values = self::fromEnvironment();
        if ($writeKey !== null) {
            $values['write_key'] = $writeKey;
        }
        if (isset($given['host'])) {
            $given['endpoint'] ??= $given['host'];
        }
        unset($given['host']);
        foreach ($given as $name => $value) {
            if ($value !== null) {
                $values[(string) $name] = $value;
            }
        }
        foreach ($values as $name => $value) {
            $values[$name] = self::checked($name, $value);
        }
        foreach (['filename', 'ca_file'] as $name) { // the folder may be another one at the end of the request
            if (isset($values[$name]) && preg_match('~^([a-z]:)?[/\\\\]~i', $values[$name]) !== 1) {
                $values[$name] = getcwd() . '/' . $values[$name];
            }
        }
        return new self(...$values);
    }

    /** @return list<string> */
    public static function names(): array
    {
        return array_keys(self::RULES);
    }

    /** Where batches go: `https://host:port/path`, or `host:port`, where `ssl` decides. */
    private static function url(#[\SensitiveParameter] string $endpoint, bool $ssl): string
    {
        $text = str_contains($endpoint, '://') ? $endpoint : ($ssl ? 'https://' : 'http://') . $endpoint;
        $parts = parse_url($text);
        $wrong = $parts === false || empty($parts['host']) || isset($parts['query']) || isset($parts['fragment'])
            || isset($parts['user']) || preg_match('/[\x00-\x20\x7f]/', $text)
            || !in_array(strtolower($parts['scheme'] ?? ''), ['http', 'https'], true);
        if ($wrong) {
            // A password does not belong into logs.
            $shown = str_contains($endpoint, '@') ? 'have a user or password' : "be '$endpoint'";
            throw self::invalid("endpoint must look like https://host:port, and cannot $shown");
        }
        $scheme = strtolower($parts['scheme']);
        if ($scheme === 'https' && !$ssl) {
            throw self::invalid("ssl=false contradicts endpoint='$endpoint'; write http:// there");
        }
        $path = rtrim($parts['path'] ?? '', '/');
        if (str_ends_with($path, '/v1')) { // as other libraries want it written
            $path = substr($path, 0, -3);
        }
        return $scheme . '://' . $parts['host'] . (isset($parts['port']) ? ":{$parts['port']}" : '') . "$path/v1/batch";
    }

    /** @return array<string, mixed> */
    private static function fromEnvironment(): array
    {
        $values = [];
        foreach (self::RULES as $name => $rule) {
            $variable = self::ENVIRONMENT_PREFIX . strtoupper($name);
            $text = in_array($rule[0], ['callable', 'logger', 'transport'], true) ? false : getenv($variable);
            if ($text !== false && $text !== '') {
                $values[$name] = self::read($variable, $rule[0], $text);
            }
        }
        return $values;
    }

    private static function read(string $variable, string $kind, string $text): mixed
    {
        $value = match ($kind) {
            'count' => filter_var($text, FILTER_VALIDATE_INT, FILTER_NULL_ON_FAILURE),
            'seconds' => filter_var($text, FILTER_VALIDATE_FLOAT, FILTER_NULL_ON_FAILURE),
            'switch' => filter_var($text, FILTER_VALIDATE_BOOLEAN, FILTER_NULL_ON_FAILURE),
            'mapping' => json_decode($text, true),
            default => $text,
        };
        return $value ?? throw self::invalid("$variable cannot be '$text'");
    }

    private static function checked(string $name, #[\SensitiveParameter] mixed $value): mixed
    {
        [$kind, $least, $most] = (self::RULES[$name] ?? ['none']) + [null, null, null];
        switch ($kind) {
            case 'count':
                $good = is_int($value) && $value >= $least && $value <= $most;
                self::demand($good, $name, 'must be a number from ' . self::range($least, $most), $value);
                return $value;
            case 'seconds':
                $good = (is_int($value) || is_float($value)) && $value >= $least && $value <= $most;
                self::demand($good, $name, 'must be a number from ' . self::range($least, $most), $value);
                return (float) $value;
            case 'switch':
                self::demand(is_bool($value), $name, 'must be true or false', $value);
                return $value;
            case 'text':
                self::demand(is_string($value), $name, 'must be a string', $value);
                $printable = !preg_match('/[\x00-\x1f\x7f]/', $value);
                self::demand($printable, $name, 'must not hold line ends or the like', $value);
                self::demand($name !== 'ca_file' || is_file($value), $name, 'must be a file', $value);
                return $value;
            case 'mapping':
                $good = is_array($value) && ($value === [] || !array_is_list($value));
                self::demand($good, $name, 'must be a mapping', $value);
                return $value;
            case 'choice':
                self::demand(in_array($value, $least, true), $name, 'must be one of ' . implode(', ', $least), $value);
                return $value;
            case 'callable':
                self::demand(is_callable($value), $name, 'must be callable', $value);
                return \Closure::fromCallable($value);
            case 'logger':
                $good = is_object($value) && method_exists($value, 'log');
                self::demand($good, $name, 'must have a method log', $value);
                return $value;
            case 'transport':
                self::demand($value instanceof Transport, $name, 'must be a Hookline\Transport', $value);
                return $value;
            default:
                throw self::invalid("there is no option $name" . self::nearest($name));
        }
    }

    private static function demand(bool $good, string $name, string $rule, #[\SensitiveParameter] mixed $value): void
    {
        if (!$good) {
            // Neither the write key nor a password: what is thrown ends up in logs.
            $isSecret = in_array($name, ['write_key', 'endpoint'], true);
            $shown = is_scalar($value) && !$isSecret ? var_export($value, true) : get_debug_type($value);
            throw self::invalid("$name $rule, not $shown");
        }
    }

    private static function range(mixed $least, mixed $most): string
    {
        return "$least to " . number_format((float) $most);
    }

    private static function nearest(string $name): string
    {
        foreach (self::names() as $known) {
            if (levenshtein($name, $known) <= 2) {
                return "; did you mean $known?";
            }
        }
        return '';
    }

    private static function invalid(string $sentence): HooklineException
    {
        return new HooklineException('invalid_option', $sentence);
    }
}
