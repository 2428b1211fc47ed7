<?php

declare(strict_types=1);

namespace Hookline\Tests;

/** A service on a port of its own, in a process of its own, that answers as it is told. */
final class ScriptedService
{
    public readonly string $endpoint;
    private readonly string $folder;
    /** @var resource */
    private readonly mixed $process;

    /** @param list<array<string, mixed>> $answers status, body, headers, hang */
    public function __construct(array $answers = [])
    {
        $this->folder = sys_get_temp_dir() . '/hookline-' . bin2hex(random_bytes(6));
        mkdir($this->folder);
        file_put_contents("$this->folder/answers", json_encode($answers));
        touch("$this->folder/requests");
        $command = [PHP_BINARY, __DIR__ . '/service.php', "$this->folder/answers", "$this->folder/requests"];
        $this->process = proc_open($command, [1 => ['pipe', 'w']], $pipes) ?: throw new \RuntimeException('no process');
        $this->endpoint = 'http://' . trim((string) fgets($pipes[1]));
    }

    public function __destruct()
    {
        proc_terminate($this->process, 9);
        array_map(unlink(...), glob("$this->folder/*") ?: []);
        rmdir($this->folder);
    }

    /** @return list<array<string, mixed>> head, body, bytes of each request so far; one that is half written is not yet */
    public function requests(): array
    {
        $lines = explode("\n", (string) file_get_contents("$this->folder/requests"));
        return array_map(static fn ($line) => json_decode($line, true), array_slice($lines, 0, -1));
    }

    /** Wait until so many events came, repeats not counted, as the service knows them; return these. */
    public function events(int $count): array
    {
        $until = microtime(true) + 10;
        do {
            $batches = array_map(static fn ($request) => $request['body']['batch'], $this->requests());
            $events = array_values(array_column(array_merge([], ...$batches), null, 'messageId'));
            if (count($events) >= $count) {
                return $events;
            }
            usleep(5_000);
        } while (microtime(true) < $until);
        throw new \RuntimeException(count($events) . " of $count events came");
    }
}
