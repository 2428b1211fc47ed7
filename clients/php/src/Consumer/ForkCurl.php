<?php

declare(strict_types=1);

namespace Hookline\Consumer;

use Hookline\Answer;
use Hookline\BatchRequest;
use Hookline\Files;
use Hookline\HooklineException;
use Hookline\Ledger;
use Hookline\Options;

/**
 * Calls wait in memory and leave in batches, each through a `curl` process of its own, one after the other.
 *
 * The end of the request waits for nothing: what is left goes to a process that outlives it and tries again for a
 * minute. A batch that is under way then goes along, so it may arrive twice; its messageIds tell. The write key and
 * the events reach `curl` through files without a name, for every user of the machine can read command lines. A
 * process is started by a shell that ends at once, so that it becomes a child of the system's first process and no
 * zombie of ours, however long this one lives. Where we are that first process, as in a container without an init, it
 * becomes ours, and we wait for it. What it says comes through a socket, whose end is its end.
 *
 * @phpstan-import-type Queued from Ledger
 */
final class ForkCurl extends QueueConsumer
{
    /** How long the last process tries again, and how often, with the growing pauses of curl. */
    private const RETRY_SECONDS = 60;
    private const RETRIES_MAX = 10;
    /** Batches one last process sends; each is an open file. */
    private const LAST_BATCHES_MAX = 64;
    /** So many last processes may fail to start: a handler that makes a call for every loss would never end. */
    private const LAST_FAILURES_MAX = 100;
    private const SAID_BYTES_MAX = 65_536;
    /** What curl may see of our environment: the application's may hold the write key. */
    private const ENVIRONMENT = [
        'PATH', 'http_proxy', 'https_proxy', 'HTTPS_PROXY', 'all_proxy', 'ALL_PROXY', 'no_proxy', 'NO_PROXY',
        'SSL_CERT_FILE', 'SSL_CERT_DIR', 'CURL_CA_BUNDLE', 'LD_LIBRARY_PATH', 'TZ',
    ];

    /** @var array<int, int> those of the processes that became our children and may be running */
    private static array $children = [];

    private readonly string $program;
    /** @var array{said: resource, text: string, batch: list<Queued>}|null the process under way */
    private ?array $process = null;

    public function __construct(Options $options, Ledger $ledger)
    {
        parent::__construct($options, $ledger);
        $this->program = self::program();
    }

    public function waiting(): int
    {
        return parent::waiting() + count($this->process['batch'] ?? []);
    }

    public function forked(): void
    {
        parent::forked();
        $this->process = null;
    }

    protected function leave(float $seconds): void
    {
        $this->isWorking = true; // a signal may make a call in the middle
        $this->collect();
        $this->queue->putBack($this->process['batch'] ?? []);
        $this->process = null; // which closes the socket; curl does not mind
        for ($failures = 0; count($this->queue) > 0 && $failures < self::LAST_FAILURES_MAX;) {
            $batches = [];
            while (count($batches) < self::LAST_BATCHES_MAX && ($batch = $this->batch()) !== []) {
                $batches[] = $batch;
                $this->queue->remove(count($batch));
            }
            $count = array_sum(array_map(count(...), $batches));
            try {
                $this->start($batches, ['file', '/dev/null', 'w'], true);
                $this->ledger->handedOver($count);
            } catch (\RuntimeException $failure) {
                $reason = Answer::lost('curl_failed', $failure->getMessage())->reason;
                $failures++;
                $this->ledger->dropped($count, 'curl_failed', $reason);
            }
        }
        $this->ledger->dropped($this->queue->clear(), 'closed');
        $this->isWorking = false;
    }

    protected function step(float $deadline): bool
    {
        if (!$this->collect()) {
            return false; // a pause before it is tried again
        }
        if ($this->process === null && ($batch = $this->batch()) !== []) {
            try {
                [$ours, $its] = Files::quietly(static function (): array {
                    $pair = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
                    return $pair === false ? Files::fail('no socket pair') : $pair;
                });
                $this->start([$batch], $its, false);
                stream_set_blocking($ours, false);
                $this->process = ['said' => $ours, 'text' => '', 'batch' => $batch];
                $this->queue->remove(count($batch));
            } catch (\RuntimeException $failure) {
                $this->settle($batch, Answer::lost('curl_failed', $failure->getMessage()));
            }
        }
        return false; // what was started takes its time
    }

    /** Wait for a process to end, or as long as the pause is. */
    protected function pause(float $seconds, float $deadline): void
    {
        if ($this->process === null) {
            parent::pause($seconds, $deadline);
            return;
        }
        $ready = [$this->process['said']];
        $none = null;
        $microseconds = (int) max(0.0, min(1.0, $deadline - self::now()) * 1e6);
        Files::quietly(static fn () => stream_select($ready, $none, $none, 0, $microseconds)); // a signal may end it
    }

    /** Look if the process ended, and what it said; return false when its batch is to be tried again later. */
    private function collect(): bool
    {
        if ($this->process === null) {
            return true;
        }
        $said = $this->process['said'];
        $this->process['text'] .= (string) Files::quietly(
            static fn () => stream_get_contents($said, self::SAID_BYTES_MAX)
        );
        if (!feof($said)) {
            return true;
        }
        ['text' => $text, 'batch' => $batch] = $this->process;
        $this->queue->putBack($batch);
        $this->process = null;
        self::reap();
        return $this->settle($batch, self::answer($text));
    }

    private static function answer(string $text): Answer
    {
        preg_match_all('/^status (\d{3})$/m', $text, $statuses);
        $status = (int) (end($statuses[1]) ?: 0);
        if ($status !== 0) {
            preg_match_all('/^after (.+)$/m', $text, $afters);
            return Answer::read($status, '', end($afters[1]) ?: null)->passedOver();
        }
        preg_match_all('/^curl: \((\d+)\) (.*)$/m', $text, $complaints);
        return Answer::none((int) (end($complaints[1]) ?: 0), end($complaints[2]) ?: 'it ended without a word');
    }

    /**
     * Start a process that sends these batches one after the other.
     *
     * @param list<list<Queued>> $batches
     * @param resource|array{string, string, string} $says where status and complaints go
     * @param bool $retries whether it tries again by itself: only where nobody is left to do so with a newer `sentAt`
     * @throws \RuntimeException when it cannot be had
     */
    private function start(array $batches, mixed $says, bool $retries): void
    {
        self::reap(); // what had not quite ended when its batch was settled, and last processes of other clients
        Files::quietly(function () use ($batches, $says, $retries): void {
            $files = [['file', '/dev/null', 'r'], ['pipe', 'w'], $says, null];
            $sections = [];
            foreach ($batches as $batch) {
                $request = new BatchRequest($this->options, array_column($batch, 1));
                $sections[] = $this->section($request, count($files), $retries);
                $files[] = Files::nameless($request->body);
            }
            $files[3] = Files::nameless(implode("next\n", $sections));
            $environment = array_filter(array_intersect_key(getenv(), array_flip(self::ENVIRONMENT)), is_string(...));
            $command = ['/bin/sh', '-c', '"$0" -q --config - <&3 >/dev/null & echo $!', $this->program];
            $shell = proc_open($command, $files, $pipes, '/', $environment);
            $number = $shell === false ? 0 : (int) fgets($pipes[1]);
            // Below 0 nobody knows how it ended: the application waits for all its children, or ignores SIGCHLD.
            if ($shell === false || proc_close($shell) > 0) {
                Files::fail('no process');
            }
            if ($number > 0) {
                self::reap($number);
            }
        });
    }

    /** Wait for those that have ended, and keep a new one among them if it is our child: of others we hear nothing. */
    private static function reap(int $new = 0): void
    {
        if (!function_exists('pcntl_waitpid')) {
            return;
        }
        foreach ($new > 0 ? [$new] : self::$children as $child) {
            unset(self::$children[$child]);
            if (pcntl_waitpid($child, $status, WNOHANG) === 0) {
                self::$children[$child] = $child;
            }
        }
    }

    private function section(BatchRequest $request, int $body, bool $tries): string
    {
        $lines = ['url = ' . self::quoted($request->url)];
        foreach ([...$request->headerLines(), 'Expect:'] as $header) {
            $lines[] = 'header = ' . self::quoted($header);
        }
        $seconds = $tries ? (int) min(self::RETRY_SECONDS, $this->options->retry_seconds) : 0;
        $retries = $seconds > 0 ? min(self::RETRIES_MAX, $this->options->max_retries) : 0;
        $authorities = $this->options->ca_file;
        return implode("\n", [
            ...$lines,
            "data-binary = \"@/dev/fd/$body\"",
            sprintf('max-time = %.3F', $this->options->timeout_seconds),
            // Not to a file: before a retry curl would cut it off, which /dev/null cannot.
            'write-out = "%{stderr}\\nstatus %{http_code}\\nafter %header{retry-after}\\n"',
            'globoff',
            'silent',
            'show-error',
            ...($authorities === null ? [] : ['cacert = ' . self::quoted((string) realpath($authorities))]),
            ...($retries > 0 ? ["retry = $retries", 'retry-all-errors', "retry-max-time = $seconds"] : []),
            '',
        ]);
    }

    private static function quoted(string $value): string
    {
        return '"' . addcslashes($value, '"\\') . '"';
    }

    private static function program(): string
    {
        foreach (explode(':', getenv('PATH') ?: '/usr/local/bin:/usr/bin:/bin') as $folder) {
            if (str_starts_with($folder, '/') && is_executable("$folder/curl") && function_exists('proc_open')) {
                return "$folder/curl";
            }
        }
        $sentence = "consumer 'fork_curl' needs the program curl and the function proc_open; install or allow them";
        throw new HooklineException('invalid_option', $sentence);
    }
}
