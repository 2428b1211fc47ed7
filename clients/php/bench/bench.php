<?php

declare(strict_types=1);

// Measures calls per second of each consumer, beside segmentio/analytics-php where that is to be had:
//   php bench.php [--events 10000] [--runs 5] [--original FOLDER] [--endpoint URL --key KEY]
// Each run is a process of its own. Without an endpoint events go to sink.php, and what did not arrive is told.
// "calls/s" ends when the last call returned, "sent/s" when the last event arrived.

const CONSUMERS = ['lib_curl', 'fork_curl', 'socket', 'file'];
/** A request per call, so fewer are measured; each also leaves a port in TIME_WAIT. */
const SOCKET_EVENTS_MAX = 3_000;
const ORIGINAL = __DIR__ . '/../../../build/sdk-php/3/vendor/segmentio/analytics-php';
const ARRIVAL_SECONDS = 60;

$given = getopt('', ['endpoint:', 'key:', 'events:', 'runs:', 'original:', 'one:']);
$given += ['endpoint' => '', 'key' => 'wk_bench', 'events' => '10000', 'runs' => '5', 'original' => ORIGINAL];
if (isset($given['one'])) {
    [$library, $consumer] = explode(':', $given['one']);
    echo json_encode(measured($library, $consumer, $given));
} else {
    compare($given);
}

/**
 * Make the calls in this process; return how many seconds they took, and how many until the events had left.
 *
 * @param array<string, string> $given
 * @return array{float, float}
 */
function measured(string $library, string $consumer, array $given): array
{
    $log = (string) tempnam(sys_get_temp_dir(), 'bench');
    $options = ['consumer' => $consumer, 'filename' => $log, 'max_queue_size' => 1_000_000];
    $client = $library === 'hookline' ? ours($options, $given) : theirs($options, $given);
    $events = (int) $given['events'];
    $began = hrtime(true);
    for ($n = 0; $n < $events; $n++) {
        $client->track([
            'userId' => "user-$n",
            'event' => 'Order Completed',
            'properties' => ['total' => 12.5, 'currency' => 'EUR', 'products' => ['shirt', 'shoes'], 'n' => $n],
        ]);
    }
    $called = hrtime(true);
    if ($library === 'hookline') {
        $client->flush(ARRIVAL_SECONDS);
    } else {
        $client->flush();
    }
    unlink($log);
    return [($called - $began) / 1e9, (hrtime(true) - $began) / 1e9];
}

/**
 * @param array<string, mixed> $options
 * @param array<string, string> $given
 */
function ours(array $options, array $given): Hookline\Client
{
    require __DIR__ . '/../autoload.php';
    return new Hookline\Client($given['key'], ['endpoint' => $given['endpoint']] + $options);
}

/**
 * @param array<string, mixed> $options
 * @param array<string, string> $given
 */
function theirs(array $options, array $given): Segment\Client
{
    spl_autoload_register(static function (string $class) use ($given): void {
        require $given['original'] . '/lib/' . strtr(substr($class, strlen('Segment\\')), '\\', '/') . '.php';
    });
    $address = parse_url($given['endpoint']);
    $client = new Segment\Client($given['key'], ['host' => "$address[host]:$address[port]"] + $options);
    if ($options['consumer'] !== 'file') { // it would insist on TLS
        $consumer = (new ReflectionProperty($client, 'consumer'))->getValue($client);
        (new ReflectionProperty($consumer, 'protocol'))->setValue($consumer, 'http://');
    }
    return $client;
}

/** @param array<string, string> $given */
function compare(array $given): void
{
    $sink = null;
    if ($given['endpoint'] === '') {
        $given['endpoint'] = 'http://127.0.0.1:' . random_int(20_000, 30_000);
        $sink = proc_open([PHP_BINARY, __DIR__ . '/sink.php', explode(':', $given['endpoint'])[2]], [], $pipes);
        usleep(300_000);
    }
    echo "| consumer | library | calls/s | events/s sent | lost |\n|---|---|---|---|---|\n";
    $hasOriginal = is_dir($given['original'] . '/lib');
    foreach (CONSUMERS as $consumer) {
        // Its socket speaks TLS at port 443 only.
        $libraries = $hasOriginal && $consumer !== 'socket' ? ['hookline', 'original'] : ['hookline'];
        $runs = [];
        for ($run = 0; $run < (int) $given['runs']; $run++) {
            foreach ($libraries as $library) {
                $runs[$library][] = oneRun($library, $consumer, $given, $sink !== null);
            }
        }
        foreach ($runs as $library => $rates) {
            [$calls, $sent, $lost] = array_map(static fn ($column) => median(array_column($rates, $column)), [0, 1, 2]);
            $shown = $consumer === 'file' ? '' : number_format($sent);
            printf("| `%s` | %s | %s | %s | %d |\n", $consumer, $library, number_format($calls), $shown, $lost);
        }
    }
    if ($sink !== null) {
        proc_terminate($sink);
    }
}

/**
 * @param array<string, string> $given
 * @return array{float, float, int} calls and events per second, and how many events did not arrive
 */
function oneRun(string $library, string $consumer, array $given, bool $hasSink): array
{
    $events = $consumer === 'socket' ? min(SOCKET_EVENTS_MAX, (int) $given['events']) : (int) $given['events'];
    $given = ['one' => "$library:$consumer", 'events' => (string) $events] + $given;
    $command = [PHP_BINARY, '-d', 'error_reporting=0', __FILE__];
    foreach ($given as $name => $value) {
        array_push($command, "--$name", $value);
    }
    $process = proc_open($command, [1 => ['pipe', 'w'], 2 => STDERR], $pipes);
    [$called, $whole] = json_decode((string) stream_get_contents($pipes[1]), true, flags: JSON_THROW_ON_ERROR);
    $ended = hrtime(true);
    $process === false ?: proc_close($process);
    if (!$hasSink || $consumer === 'file') {
        return [$events / $called, $events / $whole, 0];
    }
    $arrived = 0;
    $late = 0.0;
    for ($quiet = 0; $arrived < $events && $quiet < 100; $quiet++) { // a second without a new one
        $new = (int) file_get_contents($given['endpoint']);
        $quiet = $new > 0 ? 0 : $quiet;
        $arrived += $new;
        $late = $new > 0 ? (hrtime(true) - $ended) / 1e9 : $late;
        usleep(10_000);
    }
    return [$events / $called, $events / ($whole + $late), $events - $arrived];
}

/** @param list<float|int> $values */
function median(array $values): float
{
    sort($values);
    return (float) $values[intdiv(count($values), 2)];
}
