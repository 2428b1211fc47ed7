<?php

declare(strict_types=1);

// Measures what a call costs, for each consumer, and beside segmentio/analytics-php if its folder is given:
//   php bench.php --endpoint http://127.0.0.1:8080 --key WRITE_KEY [--events 5000] [--runs 5] [--original FOLDER]
// Each run is a process of its own. "calls" is the time until the last call returned, "whole" until the process ended.

$given = getopt('', ['endpoint:', 'key:', 'events:', 'runs:', 'original:', 'one:']);
$endpoint = (string) ($given['endpoint'] ?? 'http://127.0.0.1:8080');
$key = (string) ($given['key'] ?? '');
$events = (int) ($given['events'] ?? 5_000);
$original = (string) ($given['original'] ?? '');
$consumers = ['lib_curl', 'fork_curl', 'socket', 'file'];

/** Make the calls in this process and print how many seconds they took. */
function oneRun(string $library, string $consumer, string $endpoint, string $key, int $events, string $original): void
{
    $log = tempnam(sys_get_temp_dir(), 'bench');
    $options = ['consumer' => $consumer, 'filename' => $log, 'max_queue_size' => 1_000_000];
    if ($library === 'original') {
        spl_autoload_register(static function (string $class) use ($original): void {
            require $original . '/lib/' . strtr(substr($class, strlen('Segment\\')), '\\', '/') . '.php';
        });
        $address = parse_url($endpoint);
        $options += ['host' => $address['host'] . ':' . $address['port']];
        $client = new Segment\Client($key, $options);
        if (str_contains($consumer, 'curl')) { // it speaks https only; so does its socket, which is left out
            $its = (new ReflectionProperty($client, 'consumer'))->getValue($client);
            (new ReflectionProperty($its, 'protocol'))->setValue($its, 'http://');
        }
    } else {
        require __DIR__ . '/../autoload.php';
        $client = new Hookline\Client($key, ['endpoint' => $endpoint] + $options);
    }
    $began = hrtime(true);
    for ($n = 0; $n < $events; $n++) {
        $client->track([
            'userId' => "user-$n", 'event' => 'Order Completed',
            'properties' => ['total' => 12.5, 'currency' => 'EUR', 'n' => $n],
        ]);
    }
    $calls = hrtime(true) - $began;
    $client->flush();
    unlink($log);
    echo $calls / 1e9, ' ', (hrtime(true) - $began) / 1e9, "\n";
}

/** @param list<float> $values */
function median(array $values): float
{
    sort($values);
    return $values[intdiv(count($values), 2)];
}

if (isset($given['one'])) {
    [$library, $consumer] = explode(':', (string) $given['one']);
    oneRun($library, $consumer, $endpoint, $key, $events, $original);
    exit;
}
printf("%-10s %-10s %14s %14s\n", 'library', 'consumer', 'calls/s', 'whole/s');
foreach ($consumers as $consumer) {
    $took = [];
    for ($run = 0; $run < (int) ($given['runs'] ?? 5); $run++) {
        foreach ($original === '' || $consumer === 'socket' ? ['hookline'] : ['hookline', 'original'] as $library) {
            $command = [PHP_BINARY, __FILE__, '--one', "$library:$consumer", '--endpoint', $endpoint, '--key', $key];
            array_push($command, '--events', (string) $events, '--original', $original);
            $process = proc_open($command, [1 => ['pipe', 'w'], 2 => STDERR], $pipes);
            $line = explode(' ', (string) stream_get_contents($pipes[1]));
            $code = $process === false ? -1 : proc_close($process);
            if ($code === 0 && count($line) === 2) {
                $took[$library][] = [(float) $line[0], (float) $line[1]];
            }
        }
    }
    foreach ($took as $library => $times) {
        $rates = array_map(static fn ($column) => $events / median(array_column($times, $column)), [0, 1]);
        printf("%-10s %-10s %14s %14s\n", $library, $consumer, number_format($rates[0]), number_format($rates[1]));
    }
}
