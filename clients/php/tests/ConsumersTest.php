<?php

declare(strict_types=1);

namespace Hookline\Tests;

use Hookline\Client;
use Hookline\Psr18Transport;
use PHPUnit\Framework\TestCase;

/** Each consumer against something that listens, and at the end of a request. */
final class ConsumersTest extends TestCase
{
    private const SENDING = ['lib_curl', 'fork_curl', 'socket'];
    /** Nobody listens there. */
    private const NOWHERE = 'http://127.0.0.1:1';

    /** @dataProvider sending */
    public function testEventsArriveWithKeyAndType(string $consumer): void
    {
        $service = new ScriptedService();
        $client = new Client('wk:ö', ['endpoint' => $service->endpoint, 'consumer' => $consumer, 'gzip' => true]);
        self::assertTrue($client->track(['userId' => 'u', 'event' => 'É "quoted" \\']));
        self::assertTrue($client->flush());
        self::assertSame('É "quoted" \\', $service->events(1)[0]['event']);
        $head = strtolower($service->requests()[0]['head']);
        self::assertStringStartsWith('post /v1/batch http/1.1', $head);
        self::assertStringContainsString('authorization: basic ' . strtolower(base64_encode('wk:ö:')), $head);
        self::assertStringContainsString('content-type: application/json', $head);
        self::assertStringContainsString('content-encoding: gzip', $head);
        self::assertStringNotContainsString('expect:', $head);
        self::assertSame(1, $client->stats()['handed_over']);
    }

    /** @dataProvider sending */
    public function testDebugReadsTheAnswer(string $consumer): void
    {
        ini_set('error_log', '/dev/null');
        $refusal = ['status' => 401, 'body' => ['code' => 'unknown_write_key', 'message' => 'Which?']];
        $service = new ScriptedService([[], $refusal]);
        $told = [];
        $client = new Client('wk', ['endpoint' => $service->endpoint, 'consumer' => $consumer, 'debug' => true,
            'error_handler' => static function (string $code) use (&$told): void {
                $told[] = $code;
            }]);
        $client->track(['userId' => 'u', 'event' => 'E']);
        self::assertSame(1, $client->stats()['accepted']);
        $client->track(['userId' => 'u', 'event' => 'E']);
        self::assertSame([['unknown_write_key'], 1], [$told, $client->stats()['gave_up']]);
    }

    /** @dataProvider sending */
    public function testNobodyAtTheEndpoint(string $consumer): void
    {
        $told = [];
        $client = new Client('wk', ['endpoint' => self::NOWHERE, 'consumer' => $consumer, 'max_retries' => 0,
            'error_handler' => static function (string $code) use (&$told): void {
                $told[] = $code;
            }]);
        $client->track(['userId' => 'u', 'event' => 'E']);
        $client->flush();
        self::assertSame(['connection_failed'], array_unique($told));
        self::assertSame(1, $client->stats()['gave_up'] + $client->stats()['dropped']);
    }

    public static function sending(): iterable
    {
        return array_map(static fn ($consumer) => [$consumer], self::SENDING);
    }

    public function testACallOfSocketWaitsForNoAnswerAndHangsNobody(): void
    {
        $service = new ScriptedService([['hang' => 3]]);
        $client = new Client('wk', ['endpoint' => $service->endpoint, 'consumer' => 'socket']);
        $began = microtime(true);
        self::assertTrue($client->track(['userId' => 'u', 'event' => 'E']));
        self::assertLessThan(0.4, microtime(true) - $began);
        // A service whose queue of connections is full answers nobody: after three calls the consumer rests.
        $silence = stream_socket_server('tcp://127.0.0.1:0', context: stream_context_create(['socket' => ['backlog' => 0]]));
        $endpoint = 'http://' . stream_socket_get_name($silence, false);
        $held = [];
        for ($n = 0; $n < 4; $n++) {
            $held[] = @stream_socket_client(strtr($endpoint, ['http' => 'tcp']), flags: STREAM_CLIENT_ASYNC_CONNECT | STREAM_CLIENT_CONNECT);
        }
        $client = new Client('wk', ['endpoint' => $endpoint, 'consumer' => 'socket', 'timeout' => 0.05]);
        $began = microtime(true);
        for ($n = 0; $n < 100; $n++) {
            self::assertFalse($client->track(['userId' => 'u', 'event' => 'E']));
        }
        self::assertLessThan(0.5, microtime(true) - $began);
        self::assertSame(100, $client->stats()['dropped']);
    }

    public function testACallOfASignalHandlerInTheMiddleOfARequestOfSocketIsARequestOfItsOwn(): void
    {
        $service = new ScriptedService();
        $handler = 'Hookline::track(["userId" => "u", "event" => "Handler"])';
        self::inOwnProcess(self::replaced('CurlTransport', 'curl_exec', $handler) . ";
            Hookline\Hookline::init('wk', ['endpoint' => '$service->endpoint', 'consumer' => 'socket']);
            Hookline\Hookline::track(['userId' => 'u', 'event' => 'Call']);");
        $names = array_column($service->events(2), 'event');
        sort($names);
        self::assertSame(['Call', 'Handler'], $names);
    }

    public function testARestEndsThoughTheClockIsSetBack(): void
    {
        $service = new ScriptedService();
        $silence = stream_socket_server('tcp://127.0.0.1:0'); // which never shakes hands
        $endpoint = 'https://' . stream_socket_get_name($silence, false);
        self::inOwnProcess("\$back = 0;
            eval('namespace Hookline\\Consumer; function microtime() { return \\microtime(true) - \$GLOBALS[\"back\"]; }');
            \$client = new Hookline\\Client('wk', ['endpoint' => '$endpoint', 'consumer' => 'socket', 'timeout' => 0.02,
                'error_handler' => function (\$code, \$reason) { \$GLOBALS['said'][] = \$reason; }]);
            for (\$n = 0; \$n < 4; \$n++) { \$client->track(['userId' => 'u', 'event' => 'E']); }
            \$back = 3600;
            usleep(250_000);
            \$client->track(['userId' => 'u', 'event' => 'E']);
            \$client = new Hookline\\Client('wk', ['endpoint' => '$service->endpoint']);
            foreach (\$said as \$reason) { \$client->track(['userId' => 'u', 'event' => \$reason]); }");
        $said = array_column($service->events(5), 'event');
        self::assertStringContainsString('No request is made', $said[3]);
        self::assertStringNotContainsString('No request is made', $said[4]);
    }

    public function testACallOfLibCurlIsHeldUpForTwoSecondsAtMostAndThenNotAgain(): void
    {
        $service = new ScriptedService([['hang' => 4]]);
        $client = new Client('wk', ['endpoint' => $service->endpoint, 'batch_size' => 1, 'exit_timeout' => 0.0]);
        $began = microtime(true);
        for ($n = 0; $n < 50; $n++) {
            $client->track(['userId' => 'u', 'event' => 'E']);
        }
        self::assertLessThan(2.5, microtime(true) - $began);
        self::assertSame(50, $client->waiting());
    }

    public function testTheKeyAndTheEventsOfForkCurlCannotBeReadByOthers(): void
    {
        if (!is_dir('/proc/self')) {
            self::assertTrue(true); // only Linux shows it in this way
            return;
        }
        putenv('HOOKLINE_CLIENT_WRITE_KEY=wk_secret');
        $before = glob(sys_get_temp_dir() . '/hookline*');
        $running = self::curls();
        $service = new ScriptedService([['hang' => 2]]);
        $client = new Client(null, ['endpoint' => $service->endpoint, 'consumer' => 'fork_curl', 'batch_size' => 1]);
        $client->track(['userId' => 'u', 'event' => 'Secret Plan']);
        putenv('HOOKLINE_CLIENT_WRITE_KEY');
        $until = microtime(true) + 5; // the shell that starts it has ended, and curl may be about to begin
        while (($ours = array_diff_key(self::curls(), $running)) === [] && microtime(true) < $until) {
            usleep(10_000);
        }
        $shown = '';
        foreach ($ours as $process => $line) {
            $shown .= $line . @file_get_contents("$process/environ");
        }
        self::assertStringContainsString('curl', $shown);
        foreach (['wk_secret', base64_encode('wk_secre'), 'Secret Plan'] as $secret) {
            self::assertStringNotContainsString($secret, $shown);
        }
        $own = glob(sys_get_temp_dir() . '/hookline-*'); // the stand-in's folder
        self::assertSame([], array_diff(glob(sys_get_temp_dir() . '/hookline*') ?: [], $before ?: [], $own ?: []));
        self::assertTrue($client->flush());
        self::assertSame([], self::children());
    }

    public function testForkCurlHasFewProcessesAndNoZombies(): void
    {
        $before = self::curls();
        $service = new ScriptedService();
        $client = new Client('wk', ['endpoint' => $service->endpoint, 'consumer' => 'fork_curl', 'batch_size' => 2]);
        for ($n = 0; $n < 40; $n++) {
            $client->track(['userId' => 'u', 'event' => 'E']);
            self::assertLessThanOrEqual(1, count(array_diff_key(self::curls(), $before)));
        }
        self::assertTrue($client->flush());
        self::assertSame(40, $client->stats()['handed_over']);
        self::assertCount(40, array_unique(array_column($service->events(40), 'messageId')));
        self::assertSame([], self::children());
    }

    public function testForkCurlNeedsNobodyToWaitForProcesses(): void
    {
        if (!function_exists('pcntl_signal')) {
            self::assertFalse(function_exists('pcntl_signal')); // without it nobody ignores signals
            return;
        }
        $service = new ScriptedService();
        self::inOwnProcess("pcntl_signal(SIGCHLD, SIG_IGN); // as workers that start many processes do
            \$c = new Hookline\\Client('wk', ['endpoint' => '$service->endpoint', 'consumer' => 'fork_curl',
                'batch_size' => 10]);
            for (\$n = 0; \$n < 35; \$n++) { \$c->track(['userId' => 'u', 'event' => 'E']); }
            \$c->flush(5) && \$c->track(['userId' => 'u', 'event' => 'Whole']);");
        self::assertContains('Whole', array_column($service->events(36), 'event'));
        $sizes = array_map(static fn ($request) => count($request['body']['batch']), $service->requests());
        self::assertSame([10, 10, 10, 5, 1], $sizes);
    }

    public function testForkCurlHalvesWhatIsTooLarge(): void
    {
        $service = new ScriptedService([['status' => 413]]);
        $client = new Client('wk', ['endpoint' => $service->endpoint, 'consumer' => 'fork_curl']);
        for ($n = 0; $n < 4; $n++) {
            $client->track(['userId' => 'u', 'event' => 'E']);
        }
        self::assertTrue($client->flush());
        $sizes = array_map(static fn ($request) => count($request['body']['batch']), $service->requests());
        self::assertSame([4, 2, 2], $sizes);
    }

    /** @dataProvider endings */
    public function testTheEndOfARequestLosesNothing(string $consumer, string $ending): void
    {
        $service = new ScriptedService();
        $program = "Hookline\\Hookline::init('wk', ['endpoint' => '$service->endpoint', 'consumer' => '$consumer']);
            register_shutdown_function(fn () => Hookline\\Hookline::track(['userId' => 'u', 'event' => 'Late']));
            for (\$n = 0; \$n < 250; \$n++) { Hookline\\Hookline::track(['userId' => 'u', 'event' => 'E']); }
            $ending;";
        self::inOwnProcess($program);
        self::assertCount(251, array_unique(array_column($service->events(251), 'messageId')));
    }

    public static function endings(): iterable
    {
        foreach (['lib_curl', 'fork_curl'] as $consumer) {
            yield [$consumer, 'exit(0)'];
            yield [$consumer, 'throw new Exception("fatal")'];
            yield [$consumer, '$nothing->call()'];
        }
    }

    /** @dataProvider endingsInTheMiddle */
    public function testTheEndInTheMiddleOfTheWorkLosesNothing(string $consumer, string $ending, string $first): void
    {
        $service = new ScriptedService([['status' => 503]]);
        self::inOwnProcess("$first; Hookline\\Hookline::init('wk', ['endpoint' => '$service->endpoint',
                'consumer' => '$consumer', 'error_handler' => function () { $ending; }]);
            for (\$n = 0; \$n < 100; \$n++) { Hookline\\Hookline::track(['userId' => 'u', 'event' => 'E']); }
            Hookline\\Hookline::flush();");
        for ($until = microtime(true) + 10; count($service->requests()) < 2 && microtime(true) < $until;) {
            usleep(5_000);
        }
        self::assertSame([100, 100], array_map(static fn ($one) => count($one['body']['batch']), $service->requests()));
    }

    public static function endingsInTheMiddle(): iterable
    {
        foreach (['exit(0)', '\Hookline\Hookline::close(); exit(0)', 'trigger_error("fatal", E_USER_ERROR)'] as $ending) {
            yield ['lib_curl', $ending, ''];
            yield ['fork_curl', $ending, ''];
            yield ['lib_curl', '', self::replaced('CurlTransport', 'stripos', $ending)]; // libcurl calls it
            yield ['fork_curl', '', self::replaced('Consumer\ForkCurl', 'stream_socket_pair', $ending)];
            yield ['lib_curl', '', self::replaced('BatchRequest', 'base64_encode', $ending)];
            foreach ([350, 650] as $calls) { // 299 are those of the calls that fill the batch
                yield ['lib_curl', '', self::replaced('Queue', 'strlen', $ending, $calls)];
                yield ['fork_curl', '', self::replaced('Queue', 'strlen', $ending, $calls)];
            }
        }
    }

    public function testACloseByASignalInTheMiddleOfTheWorkOfForkCurlLeavesItsProcessAlone(): void
    {
        $service = new ScriptedService();
        $code = self::inOwnProcess('set_error_handler(fn () => exit(1));'
            . self::replaced('Consumer\ForkCurl', 'stream_get_contents', '\Hookline\Hookline::close()') . ";
            Hookline\Hookline::init('wk', ['endpoint' => '$service->endpoint', 'consumer' => 'fork_curl']);
            for (\$n = 0; \$n < 100; \$n++) { Hookline\Hookline::track(['userId' => 'u', 'event' => 'E']); }
            Hookline\Hookline::flush();");
        self::assertSame([0, 100], [$code, count($service->events(100))]);
        self::assertCount(1, $service->requests());
    }

    public function testTheEndOfForkCurlEndsThoughItsHandlerMakesACallForEveryLoss(): void
    {
        $service = new ScriptedService();
        self::inOwnProcess("set_time_limit(2);
            eval('namespace Hookline\Consumer; function proc_open() { return false; }');
            \$options = ['endpoint' => '$service->endpoint'];
            \$client = new Hookline\Client('wk', \$options + ['consumer' => 'fork_curl', 'error_handler' =>
                function () { \$GLOBALS['client']->track(['userId' => 'u', 'event' => 'Lost']); }]);
            \$client->track(['userId' => 'u', 'event' => 'E']);
            \$client->close();
            (new Hookline\Client('wk', \$options))->track(['userId' => 'u', 'event' => 'Ended']);");
        self::assertSame(['Ended'], array_column($service->events(1), 'event'));
    }

    /** Code that has a call of PHP's function by a class do something first, as a signal or a time limit does. */
    private static function replaced(string $class, string $function, string $first, int $after = 0): string
    {
        $namespace = 'Hookline' . rtrim(substr("\\$class", 0, (int) strrpos("\\$class", '\\')), '\\');
        return "eval('namespace $namespace; function $function(...\$given) { static \$calls = 0;
            if (\$calls++ === $after) { $first; } return \\$function(...\$given); }')";
    }

    public function testAClientThatNobodyHoldsIsFlushed(): void
    {
        $transport = new ScriptedTransport();
        (new Client('wk', ['transport' => $transport]))->track(['userId' => 'u', 'event' => 'E']);
        self::assertSame([1], $transport->sizes());
    }

    public function testTheEndIsDelayedForABoundedTimeOnly(): void
    {
        $service = new ScriptedService([['hang' => 5]]);
        foreach (['lib_curl' => 1.5, 'fork_curl' => 1.0] as $consumer => $most) {
            $began = microtime(true);
            self::inOwnProcess("\$c = new Hookline\\Client('wk', ['endpoint' => '$service->endpoint', 'consumer' => '$consumer',
                'exit_timeout' => 0.5]); \$c->track(['userId' => 'u', 'event' => 'E']);");
            self::assertLessThan($most, microtime(true) - $began, $consumer);
        }
    }

    public function testAForkedChildSendsItsOwnEventsOnly(): void
    {
        if (!function_exists('pcntl_fork')) {
            self::assertFalse(function_exists('pcntl_fork')); // without it there are no forks
            return;
        }
        foreach (['lib_curl', 'fork_curl'] as $consumer) {
            $service = new ScriptedService();
            self::inOwnProcess("\$c = new Hookline\\Client('wk', ['endpoint' => '$service->endpoint', 'consumer' => '$consumer']);
                \$c->track(['userId' => 'u', 'event' => 'Before']);
                \$child = pcntl_fork();
                \$c->track(['userId' => 'u', 'event' => \$child ? 'Parent' : 'Child']);
                \$child && pcntl_waitpid(\$child, \$status);");
            $events = $service->events(3);
            $names = array_column($events, 'event');
            sort($names);
            self::assertSame(['Before', 'Child', 'Parent'], $names);
            self::assertCount(3, array_unique(array_column($events, 'messageId')));
        }
    }

    public function testAnyPsr18ClientSends(): void
    {
        $loads = '/usr/share/php/Nyholm/Psr7/autoload.php';
        if (!is_file($loads) || !is_file('/usr/share/php/Psr/Http/Client/autoload.php')) {
            self::assertFalse(interface_exists('Psr\Http\Client\ClientInterface'));
            return;
        }
        require_once $loads;
        require_once '/usr/share/php/Psr/Http/Client/autoload.php';
        $factory = new \Nyholm\Psr7\Factory\Psr17Factory();
        $sender = new class implements \Psr\Http\Client\ClientInterface {
            public ?\Psr\Http\Message\RequestInterface $sent = null;

            public function sendRequest(\Psr\Http\Message\RequestInterface $request): \Psr\Http\Message\ResponseInterface
            {
                $this->sent = $request;
                return new \Nyholm\Psr7\Response(200, [], '{"success": true}');
            }
        };
        $client = new Client('wk', ['transport' => new Psr18Transport($sender, $factory, $factory), 'debug' => true]);
        ini_set('error_log', '/dev/null');
        $client->track(['userId' => 'u', 'event' => 'E']);
        self::assertSame(1, $client->stats()['accepted']);
        self::assertSame('Basic d2s6', $sender->sent?->getHeaderLine('Authorization'));
    }

    private static function inOwnProcess(string $program): int
    {
        $code = 'require ' . var_export(dirname(__DIR__) . '/autoload.php', true) . ';' . $program;
        $null = ['file', '/dev/null', 'w'];
        return proc_close(proc_open([PHP_BINARY, '-r', $code], [1 => $null, 2 => $null], $pipes));
    }

    /** @return array<string, string> command lines of processes that send */
    private static function curls(): array
    {
        $found = [];
        foreach (glob('/proc/[0-9]*/cmdline') ?: [] as $file) {
            $line = (string) @file_get_contents($file);
            $fields = explode(' ', (string) strrchr((string) @file_get_contents(dirname($file) . '/stat'), ')'));
            if (preg_match('~^\S*/curl\0-q\0~', $line) && (int) ($fields[4] ?? 0) === posix_getsid(0)) {
                $found[dirname($file)] = $line;
            }
        }
        return $found;
    }

    /** @return list<string> children of ours that ended and were not waited for */
    private static function children(): array
    {
        $found = (string) shell_exec('ps --ppid ' . getmypid() . ' -o stat=,comm= | grep "^Z.*\(curl\|sh\)"');
        return array_values(array_filter(explode("\n", $found)));
    }
}
