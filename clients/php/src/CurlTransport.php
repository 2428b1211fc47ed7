<?php

declare(strict_types=1);

namespace Hookline;

/** Batches through libcurl: one handle with its kept-alive connection. */
final class CurlTransport implements Transport
{
    private const ANSWER_BYTES_MAX = 1024 * 1024;

    private ?\CurlHandle $handle = null;
    /** @var list<\CurlHandle> */
    private static array $forgotten = [];

    public function __construct(private readonly ?string $authorities = null)
    {
    }

    /** Send and wait for the answer. */
    public function send(BatchRequest $request, float $seconds): Answer
    {
        $body = '';
        $retryAfter = null;
        $handle = $this->prepared($request, $seconds);
        curl_setopt($handle, CURLOPT_HEADERFUNCTION, static function ($_, string $line) use (&$retryAfter): int {
            if (stripos($line, 'retry-after:') === 0) {
                $retryAfter = substr($line, 12);
            }
            return strlen($line);
        });
        curl_setopt($handle, CURLOPT_WRITEFUNCTION, static function ($_, string $data) use (&$body): int {
            $body .= substr($data, 0, self::ANSWER_BYTES_MAX - strlen($body));
            return strlen($data);
        });
        try {
            if (curl_exec($handle) === false) {
                return Answer::none(curl_errno($handle), curl_error($handle));
            }
            return Answer::read((int) curl_getinfo($handle, CURLINFO_RESPONSE_CODE), $body, $retryAfter);
        } finally {
            $this->handle = $handle;
        }
    }

    /**
     * Send over a connection of its own and close it as soon as the request has left: nobody reads the answer.
     *
     * Without TLS that is when it is written. With TLS it is when the answer begins, or when the time is over: a
     * TLS 1.3 service sends session tickets by itself. When they arrive at a closed socket they reset the connection,
     * and what the system has not sent by then is lost.
     */
    public function sendOneWay(BatchRequest $request, float $seconds): Answer
    {
        $handle = $this->prepared($request, $seconds);
        $size = strlen($request->body);
        $isWritten = static fn (): bool => curl_getinfo($handle, CURLINFO_SIZE_UPLOAD_T) >= $size;
        $ends = str_starts_with(strtolower($request->url), 'https:')
            ? [CURLOPT_HEADERFUNCTION => static fn ($_, string $line): int => $isWritten() ? -1 : strlen($line)]
            : [
                CURLOPT_NOPROGRESS => false,
                CURLOPT_PROGRESSFUNCTION => static fn ($_, $downAll, $down, $upAll, $up): int => $up >= $size ? 1 : 0,
            ];
        curl_setopt_array($handle, [
            CURLOPT_HTTPHEADER => [...$request->headerLines(), 'Expect:', 'Connection: close'],
            // In HTTP/2, to go is to take the request back: a proxy would drop most that are written to their end.
            CURLOPT_HTTP_VERSION => CURL_HTTP_VERSION_1_1,
            CURLOPT_FRESH_CONNECT => true,
            CURLOPT_FORBID_REUSE => true,
            CURLOPT_WRITEFUNCTION => static fn ($_, string $data): int => strlen($data),
        ] + $ends);
        try {
            curl_exec($handle);
            $number = curl_errno($handle);
            return $number === 0 || $isWritten() ? new Answer(0) : Answer::none($number, curl_error($handle));
        } finally {
            $this->handle = $handle;
        }
    }

    /** Leave the connection to the parent process. The handle stays: freeing it would say goodbye in the parent's name. */
    public function forget(): void
    {
        if ($this->handle !== null) {
            self::$forgotten[] = $this->handle;
            $this->handle = null;
        }
    }

    private function prepared(BatchRequest $request, float $seconds): \CurlHandle
    {
        $handle = $this->handle ?? curl_init();
        $this->handle = null; // until it is done: a signal may make a call in the middle, which needs another one
        curl_setopt_array($handle, [
            CURLOPT_URL => $request->url,
            CURLOPT_POST => true,
            CURLOPT_POSTFIELDS => $request->body,
            CURLOPT_HTTPHEADER => [...$request->headerLines(), 'Expect:'], // no waiting for a 100 Continue
            CURLOPT_TIMEOUT_MS => max(1, (int) round($seconds * 1000)),
            CURLOPT_CONNECTTIMEOUT_MS => max(1, (int) round($seconds * 1000)),
            CURLOPT_NOSIGNAL => true, // signals belong to the application
        ]);
        if ($this->authorities !== null) {
            curl_setopt($handle, CURLOPT_CAINFO, $this->authorities);
        }
        return $handle;
    }
}
