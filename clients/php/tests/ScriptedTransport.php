<?php

declare(strict_types=1);

namespace Hookline\Tests;

use Hookline\Answer;
use Hookline\BatchRequest;
use Hookline\Transport;

/** Answers as it is told, then accepts everything; keeps what it was given. */
final class ScriptedTransport implements Transport
{
    /** @var list<array<string, mixed>> */
    public array $bodies = [];

    /** @param list<Answer|\Closure(list<mixed>): Answer> $answers */
    public function __construct(public array $answers = [])
    {
    }

    public function send(BatchRequest $request, float $seconds): Answer
    {
        $body = json_decode($request->body, true, flags: JSON_THROW_ON_ERROR);
        $this->bodies[] = $body;
        $answer = array_shift($this->answers) ?? new Answer(200);
        return $answer instanceof \Closure ? $answer($body['batch']) : $answer;
    }

    /** @return list<array<string, mixed>> every event of every request */
    public function events(): array
    {
        return array_merge([], ...array_column($this->bodies, 'batch'));
    }

    /** @return list<int> how many events each request had */
    public function sizes(): array
    {
        return array_map(static fn ($body) => count($body['batch']), $this->bodies);
    }
}
