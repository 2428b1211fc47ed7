<?php

declare(strict_types=1);

namespace Hookline;

use Psr\Http\Client\ClientInterface;
use Psr\Http\Message\RequestFactoryInterface;
use Psr\Http\Message\StreamFactoryInterface;

/**
 * Batches through any PSR-18 client: `'transport' => new Psr18Transport($client, $requests, $streams)`.
 *
 * PSR-18 knows no time limit: set one in the client. An exception of it is a request without an answer.
 */
final class Psr18Transport implements Transport
{
    private const ANSWER_BYTES_MAX = 1024 * 1024;

    public function __construct(
        private readonly ClientInterface $client,
        private readonly RequestFactoryInterface $requests,
        private readonly StreamFactoryInterface $streams,
    ) {
    }

    /** Send and wait for the answer for as long as the client does. */
    public function send(BatchRequest $request, float $seconds): Answer
    {
        try {
            $made = $this->requests->createRequest('POST', $request->url);
            foreach ($request->headers as $name => $value) {
                $made = $made->withHeader($name, $value);
            }
            $answer = $this->client->sendRequest($made->withBody($this->streams->createStream($request->body)));
            $retryAfter = $answer->hasHeader('Retry-After') ? $answer->getHeaderLine('Retry-After') : null;
            $body = substr((string) $answer->getBody(), 0, self::ANSWER_BYTES_MAX);
            return Answer::read($answer->getStatusCode(), $body, $retryAfter);
        } catch (\Throwable $failure) {
            return Answer::lost('connection_failed', $failure->getMessage());
        }
    }
}
