<?php

declare(strict_types=1);

// The library's side of the book of behaviour: reads commands and answers them, one JSON object a line.

require __DIR__ . '/../autoload.php';

use Hookline\Client;
use Hookline\HooklineException;
use Hookline\Message;
use Hookline\Options;

/** Speaks the driver's protocol for one client at a time. */
final class Driver
{
    private const OUTCOMES = ['accepted', 'handed_over', 'rejected', 'gave_up', 'dropped'];
    /** What a case may need that not every library has, besides the options. */
    private const FEATURES = ['environment', 'exit_hook', 'free_fields', 'loose_types', 'nan', 'upload'];
    private const NO_NUMBERS = ['$NaN' => NAN, '$Infinity' => INF, '$-Infinity' => -INF];

    private ?Client $client = null;
    /** @var array<string, int> */
    private array $told = [];
    /** @var list<string> */
    private array $codes = [];
    /** @var list<string> */
    private array $acknowledged = [];
    private ?float $closesWithin = null;

    /**
     * @param array<string, mixed> $command
     * @return array<string, mixed>
     */
    public function answer(array $command): array
    {
        return match ($command['do']) {
            'describe' => [
                'language' => 'php',
                'version' => Message::VERSION,
                'consumers' => Options::CONSUMERS,
                'features' => [
                    ...self::FEATURES,
                    ...(function_exists('pcntl_fork') ? ['fork'] : []),
                    ...Options::names(),
                ],
                'default_consumer' => 'lib_curl',
                'reads_answers' => [],
            ],
            'defaults' => ['options' => self::defaults($command['consumer'] ?? 'lib_curl')],
            'init' => $this->init($command['options'] ?? []),
            'call' => $this->call($command['type'], $command['message']),
            'calls' => $this->calls($command['count'], $command['type'], $command['message']),
            'flush' => $this->result(fn (Client $client) => $client->flush((float) ($command['seconds'] ?? 10))),
            'close' => $this->result(fn (Client $client) => $client->close((float) ($command['seconds'] ?? 10))),
            'close_in_handler' => $this->closeInHandler((float) $command['seconds']),
            'told' => ['codes' => $this->codes, 'acknowledged' => $this->acknowledged],
            'fork' => ['exit' => $this->fork($command['calls'])],
            'upload' => ['exit' => self::upload($command['options'])],
            'die' => self::kill(),
            default => ['error' => 'unknown_command'],
        };
    }

    /** @return array<string, mixed> */
    private static function defaults(string $consumer): array
    {
        $options = Options::resolve(null, ['consumer' => $consumer]);
        $values = [];
        foreach (Options::names() as $name) {
            $values[$name] = $options->$name;
        }
        return ['timeout' => $options->timeout_seconds, 'flush_at' => $options->batch_size] + $values;
    }

    /**
     * @param array<string, mixed> $options
     * @return array<string, mixed>
     */
    private function init(array $options): array
    {
        $handlers = [
            'error_handler' => function (string $code): void {
                $this->codes[] = $code;
                $this->closeNow();
            },
            'on_success' => function (array $ids): void {
                array_push($this->acknowledged, ...$ids);
                $this->closeNow();
            },
        ];
        try {
            $this->client = new Client($options['write_key'] ?? null, array_diff_key($options, ['write_key' => 0]) + $handlers);
            $this->told = $this->client->stats();
            return ['ok' => true];
        } catch (HooklineException $failure) {
            return ['error' => $failure->errorCode];
        }
    }

    /** @return array<string, mixed> */
    private function closeInHandler(float $seconds): array
    {
        $this->closesWithin = $seconds;
        return ['ok' => true];
    }

    private function closeNow(): void
    {
        [$seconds, $this->closesWithin] = [$this->closesWithin, null];
        if ($seconds !== null) {
            $this->living()->close($seconds);
        }
    }

    /**
     * @param array<string, mixed> $message
     * @return array<string, mixed>
     */
    private function call(string $type, array $message): array
    {
        $before = count($this->codes);
        try {
            $taken = $this->living()->$type(self::filled($message));
        } catch (HooklineException $failure) {
            return ['error' => $failure->errorCode];
        }
        $why = array_slice($this->codes, $before);
        return $taken ? ['messageId' => $this->living()->lastMessageId()]
            : ['messageId' => null] + ($why === [] ? [] : ['error' => $why[0]]);
    }

    /**
     * @param array<string, mixed> $message
     * @return array<string, mixed>
     */
    private function calls(int $count, string $type, array $message): array
    {
        $taken = 0;
        for ($n = 0; $n < $count; $n++) {
            $taken += (int) $this->living()->$type(self::filled($message, $n));
        }
        return ['taken' => $taken];
    }

    /**
     * Return a message with its words replaced: `{n}` by the number, `$NaN` by what JSON cannot say.
     *
     * @param array<mixed> $message
     * @return array<mixed>
     */
    private static function filled(array $message, int $n = 0): array
    {
        foreach ($message as $name => $value) {
            $message[$name] = match (true) {
                is_string($value) => self::NO_NUMBERS[$value] ?? str_replace('{n}', (string) $n, $value),
                is_array($value) => self::filled($value, $n),
                $value instanceof stdClass => (object) self::filled((array) $value, $n),
                default => $value,
            };
        }
        return $message;
    }

    /**
     * Make calls in a child, which ends as a script does.
     *
     * @param list<array{type: string, message: array<mixed>}> $calls
     */
    private function fork(array $calls): int
    {
        $child = pcntl_fork();
        if ($child === 0) {
            foreach ($calls as $call) {
                $this->living()->{$call['type']}(self::filled($call['message']));
            }
            exit(0);
        }
        pcntl_waitpid($child, $status);
        return pcntl_wexitstatus($status);
    }

    /** @return array<string, int> */
    private function result(\Closure $work): array
    {
        $client = $this->living();
        $work($client);
        $now = $client->stats();
        $result = ['waiting' => $client->waiting()];
        foreach (self::OUTCOMES as $outcome) {
            $result[$outcome] = $now[$outcome] - $this->told[$outcome];
        }
        $this->told = $now;
        return $result;
    }

    private function living(): Client
    {
        return $this->client ?? throw new HooklineException('closed', 'init comes first');
    }

    /** @param array<string, string> $options */
    private static function upload(array $options): int
    {
        $arguments = [PHP_BINARY, __DIR__ . '/../send.php'];
        foreach ($options as $name => $value) {
            array_push($arguments, '--' . strtr($name, '_', '-'), (string) $value);
        }
        $process = proc_open($arguments, [1 => STDERR, 2 => STDERR], $pipes);
        return $process === false ? -1 : proc_close($process);
    }

    private static function kill(): never
    {
        exec('kill -9 ' . getmypid());
        exit(1);
    }
}

ini_set('error_log', '/dev/stderr'); // what debug logs is no answer
$driver = new Driver();
while (($line = fgets(STDIN)) !== false) {
    try {
        $command = json_decode($line, true, flags: JSON_THROW_ON_ERROR);
        if (isset($command['message'])) { // what is a mapping in JSON stays one, also when it is empty
            $command['message'] = (array) json_decode($line)->message;
        }
        $answer = $driver->answer($command);
    } catch (HooklineException $failure) {
        $answer = ['error' => $failure->errorCode];
    }
    fwrite(STDOUT, json_encode($answer, JSON_THROW_ON_ERROR | JSON_UNESCAPED_SLASHES) . "\n");
}
