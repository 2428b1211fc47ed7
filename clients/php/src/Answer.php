<?php

declare(strict_types=1);

namespace Hookline;

/** What the service answered to a batch, as a value: accepted, refused, or worth another try. */
final class Answer
{
    private const CURL_TIMED_OUT = 28;
    private const CURL_TLS = [35, 51, 53, 54, 58, 59, 60, 64, 66, 77, 80, 82, 83, 90, 91, 98];
    /** Refusals that are about an event, or about how many there are: parts of the batch may be taken. */
    private const CONTENT_CODES = [
        'invalid_json', 'invalid_utf8', 'invalid_body', 'nesting_too_deep', 'event_too_large', 'batch_too_large',
    ];

    /**
     * @param int $status 0 is no answer at all
     * @param string $code empty only when the batch was accepted, or nobody looked
     * @param list<array{int, string, string}> $rejected events of an accepted batch: index, code, sentence
     */
    public function __construct(
        public readonly int $status,
        public readonly string $code = '',
        public readonly string $reason = '',
        public readonly array $rejected = [],
        public readonly ?float $retryAfterSeconds = null,
    ) {
    }

    /** Read an HTTP answer of the service. */
    public static function read(int $status, string $body, ?string $retryAfter): self
    {
        $document = json_decode($body, true);
        $document = is_array($document) ? $document : [];
        if ($status === 200 && ($document['success'] ?? null) === true) {
            return new self(200, rejected: self::rejections($document['rejected'] ?? null));
        }
        $code = $document['code'] ?? null;
        $reason = $document['message'] ?? '';
        if (!is_string($code) || $code === '') { // an empty one would count as accepted
            $code = match (true) {
                $status === 429 => 'throttled',
                $status >= 500 => 'server_error',
                default => $status < 400 ? 'unexpected_answer' : 'refused',
            };
            $reason = HooklineException::SENTENCES[$code] . " (status $status)";
        }
        $reason = is_string($reason) ? $reason : '';
        return new self($status, $code, $reason, [], self::retryAfter($retryAfter));
    }

    /** Read curl's error number; its text goes into the reason. */
    public static function none(int $number, string $text): self
    {
        $code = match (true) {
            $number === self::CURL_TIMED_OUT => 'timed_out',
            in_array($number, self::CURL_TLS, true) => 'tls_failed',
            default => 'connection_failed',
        };
        return self::lost($code, "curl $number: $text");
    }

    /** Stand for a request that got no answer, for a reason of ours. */
    public static function lost(string $code, string $detail): self
    {
        return new self(0, $code, HooklineException::SENTENCES[$code] . " ($detail)");
    }

    /** Whether the same batch may be accepted later. */
    public function isRetryable(): bool
    {
        return $this->code !== '' && (in_array($this->status, [0, 200, 408, 425, 429], true)
            || ($this->status >= 500 && !in_array($this->status, [501, 505], true)));
    }

    /** Whether the service says that it is about an event, or anything before it says 413. A bare 400 may be all. */
    public function isAboutContent(): bool
    {
        return $this->status === 413 || in_array($this->code, self::CONTENT_CODES, true);
    }

    /** Forget everything but whether to try again (overload, a service that starts or stops) and that it is too large. */
    public function passedOver(): self
    {
        $matters = $this->status === 413 || ($this->isRetryable() && $this->status !== 200);
        return $matters ? $this : new self(0);
    }

    /** @return list<array{int, string, string}> */
    private static function rejections(mixed $given): array
    {
        $found = [];
        foreach (is_array($given) ? $given : [] as $item) {
            if (is_array($item) && is_int($item['index'] ?? null)) {
                $code = $item['code'] ?? '';
                $message = $item['message'] ?? '';
                $found[] = [$item['index'], is_string($code) ? $code : '', is_string($message) ? $message : ''];
            }
        }
        return $found;
    }

    /** Seconds of a Retry-After header, which may also be a date; null when there is none that can be read. */
    private static function retryAfter(?string $value): ?float
    {
        $value = trim($value ?? '');
        if ($value === '' || ctype_digit($value)) {
            return $value === '' ? null : (float) $value;
        }
        // Only what HTTP calls a date: strtotime reads "-5" as a zone, and much else that is no time from now.
        if (preg_match('/^[a-z]+, (\d{1,2}[ -][a-z]{3}[ -]\d{2,4} [\d:]{8} (GMT|UTC|[+-]\d{4}))$/i', $value, $found)) {
            $value = $found[1];
        } elseif (preg_match('/^[a-z]{3} ([a-z]{3}) +(\d{1,2}) ([\d:]{8}) (\d{4})$/i', $value, $found)) {
            $value = "$found[2] $found[1] $found[4] $found[3] UTC";
        } else {
            return null;
        }
        $time = strtotime($value);
        return $time === false ? null : max(0.0, $time - microtime(true));
    }
}
