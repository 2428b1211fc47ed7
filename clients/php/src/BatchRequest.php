<?php

declare(strict_types=1);

namespace Hookline;

/** The request that carries a batch, the same whoever sends it, and its limits. */
final class BatchRequest
{
    /** The whole body before compression. */
    public const BYTES_MAX = 512_000;
    /** Events the service takes in one request. */
    public const EVENTS_MAX = 2_500;
    /** Room for events, each with the comma after it. */
    public const ROOM_BYTES = self::BYTES_MAX - 48; // {"batch":[],"sentAt":"2026-11-20T07:00:00.123Z"}
    /** Events shrink to a fifth at once; higher levels cost more time than the bytes they save. */
    private const GZIP_LEVEL = 1;

    public readonly string $url;
    /** @var array<string, string> */
    public readonly array $headers;
    public readonly string $body;

    /** @param list<string> $events encoded already */
    public function __construct(Options $options, array $events)
    {
        $body = '{"batch":[' . implode(',', $events) . '],"sentAt":"' . Timestamp::iso(microtime(true)) . '"}';
        $zip = $options->gzip && function_exists('gzencode');
        $this->url = $options->url;
        $this->body = $zip ? (string) gzencode($body, self::GZIP_LEVEL) : $body;
        $this->headers = [
            'Authorization' => 'Basic ' . base64_encode("$options->write_key:"),
            'Content-Type' => 'application/json',
            'User-Agent' => 'hookline-php/' . Message::VERSION,
        ] + ($zip ? ['Content-Encoding' => 'gzip'] : []);
    }

    /**
     * The headers as lines.
     *
     * @return list<string>
     */
    public function headerLines(): array
    {
        $lines = [];
        foreach ($this->headers as $name => $value) {
            $lines[] = "$name: $value";
        }
        return $lines;
    }
}
