<?php

declare(strict_types=1);

namespace Hookline\Tests;

use Hookline\Answer;
use Hookline\Client;
use Hookline\FileException;
use Hookline\Files;
use Hookline\Options;
use Hookline\Upload\LineReader;
use Hookline\Upload\SideFile;
use Hookline\Upload\TakenFile;
use Hookline\Upload\Uploader;
use PHPUnit\Framework\TestCase;

/** The log file: whole lines, none lost by the rename, nothing that is not ours. */
final class FileTest extends TestCase
{
    private string $folder;
    private string $log;
    private ScriptedTransport $transport;

    protected function setUp(): void
    {
        $this->folder = sys_get_temp_dir() . '/hookline-' . bin2hex(random_bytes(6));
        mkdir($this->folder, 0700);
        $this->log = "$this->folder/app.log";
        $this->transport = new ScriptedTransport();
    }

    protected function tearDown(): void
    {
        array_map(unlink(...), glob("$this->folder/*") ?: []);
        rmdir($this->folder);
    }

    public function testACallIsALineWhenItReturns(): void
    {
        $client = $this->client();
        self::assertTrue($client->track(['userId' => 'u', 'event' => "two\nlines"]));
        self::assertSame(0600, fileperms($this->log) & 0777);
        $lines = file($this->log);
        self::assertCount(1, $lines);
        self::assertSame("two\nlines", json_decode($lines[0], true)['event']);
        self::assertSame(1, $client->stats()['handed_over']);
    }

    public function testARestOfAKilledProcessIsClosedWithALineEnd(): void
    {
        $client = $this->client();
        $client->track(['userId' => 'u', 'event' => 'E']);
        file_put_contents($this->log, '{"half', FILE_APPEND);
        $client->track(['userId' => 'u', 'event' => 'E']);
        $client->track(['userId' => 'u', 'event' => 'E']);
        $lines = file($this->log, FILE_IGNORE_NEW_LINES);
        self::assertSame([4, '{"half'], [count($lines), $lines[1]]);
    }

    public function testWhatWasTakenAwayIsNotWrittenToAnyMore(): void
    {
        $client = $this->client();
        $client->track(['userId' => 'u', 'event' => '1']);
        rename($this->log, "$this->log.taken");
        $client->track(['userId' => 'u', 'event' => '2']);
        self::assertSame([1, 1], [count(file("$this->log.taken")), count(file($this->log))]);
    }

    public function testALockedFileHoldsUpForASecondOnce(): void
    {
        $other = fopen($this->log, 'a');
        flock($other, LOCK_EX);
        $told = [];
        $client = $this->client(['error_handler' => static function (string $code) use (&$told): void {
            $told[] = $code;
        }]);
        $began = microtime(true);
        for ($n = 0; $n < 10; $n++) {
            self::assertFalse($client->track(['userId' => 'u', 'event' => 'E']));
        }
        self::assertLessThan(1.5, microtime(true) - $began);
        self::assertSame(['file_busy'], array_unique($told));
        flock($other, LOCK_UN);
        self::assertTrue($client->track(['userId' => 'u', 'event' => 'E']));
    }

    /** @dataProvider handlers */
    public function testACallOfASignalHandlerInTheMiddleOfAWriteIsALineOfItsOwn(string $ending, array $events): void
    {
        // What a handler does when its signal comes between the lock and the write. The functions of the namespace go first.
        $program = 'namespace Hookline\Consumer { function fwrite($file, $data) {
                static $isFirst = true;
                if ($isFirst) { $isFirst = false; \handler(); }
                $other = fopen(LOG, "r");
                flock($other, LOCK_EX | LOCK_NB) && exit(1);
                return \fwrite($file, $data);
            } }
            namespace { require ' . var_export(dirname(__DIR__) . '/autoload.php', true) . ';
            define("LOG", ' . var_export($this->log, true) . ');
            $client = new Hookline\Client("wk", ["consumer" => "file", "filename" => LOG]);
            function handler() { $GLOBALS["client"]->track(["userId" => "u", "event" => "Handler"]) || exit(2); ' . $ending . ' }
            $client->track(["userId" => "u", "event" => "Call"]) || exit(3); }';
        $process = proc_open([PHP_BINARY, '-r', $program], [], $pipes);
        self::assertSame(0, proc_close($process));
        $lines = array_map(static fn ($line) => json_decode($line, true), file($this->log));
        self::assertSame($events, array_column($lines, 'event'));
    }

    public static function handlers(): iterable
    {
        yield ['', ['Call', 'Handler']];
        yield ['$GLOBALS["client"]->close();', ['Call', 'Handler']];
        yield ['exit(0);', ['Handler']];
        yield ['$GLOBALS["client"]->close(); exit(0);', ['Handler']];
    }

    public function testAFullDiskCostsTheEventAndNothingElse(): void
    {
        if (!is_writable('/dev/full')) {
            self::assertFileDoesNotExist('/dev/full');
            return;
        }
        $limit = 'ulimit -f 8; exec "$0" -r "$1"';
        $program = 'require ' . var_export(dirname(__DIR__) . '/autoload.php', true) . ';
            if (function_exists("pcntl_signal")) { pcntl_signal(SIGXFSZ, SIG_IGN); }
            $c = new Hookline\Client("wk", ["consumer" => "file", "filename" => ' . var_export($this->log, true) . ',
                "error_handler" => function ($code) { file_put_contents("php://stderr", ""); $GLOBALS["codes"][] = $code; }]);
            for ($n = 0; $n < 400; $n++) { $c->track(["userId" => "u", "event" => "E"]); }
            echo json_encode([array_unique($codes), $c->stats()["handed_over"], $c->stats()["dropped"]]);';
        $process = proc_open(['/bin/sh', '-c', $limit, PHP_BINARY, $program], [1 => ['pipe', 'w'], 2 => ['file', '/dev/null', 'w']], $pipes);
        $shown = stream_get_contents($pipes[1]);
        proc_close($process);
        if (!function_exists('pcntl_signal')) { // the system ends the process then
            self::assertSame('', $shown);
            return;
        }
        [$codes, $written, $dropped] = json_decode($shown, true);
        self::assertSame([['file_failed'], 400], [$codes, $written + $dropped]);
        $lines = file($this->log, FILE_IGNORE_NEW_LINES);
        self::assertCount($written, $lines);
        self::assertNotContains(null, array_map(json_decode(...), $lines));
    }

    public function testALinkIsNotFollowed(): void
    {
        touch("$this->folder/elsewhere");
        symlink("$this->folder/elsewhere", $this->log);
        self::assertFalse($this->client()->track(['userId' => 'u', 'event' => 'E']));
        self::assertSame('', file_get_contents("$this->folder/elsewhere"));
        self::assertSame(Uploader::DISK, $this->upload());
        posix_mkfifo("$this->folder/pipe", 0600);
        unlink($this->log);
        rename("$this->folder/pipe", $this->log);
        self::assertFalse($this->client()->track(['userId' => 'u', 'event' => 'E']));
    }

    public function testAWarningHandlerOfTheApplicationIsNotCalled(): void
    {
        set_error_handler(static fn () => throw new \ErrorException('a warning'));
        try {
            self::assertFalse($this->client(['filename' => "$this->folder/no/log"])->track(['userId' => 'u', 'event' => 'E']));
        } finally {
            restore_error_handler();
        }
    }

    public function testAnUploadSendsAndRemoves(): void
    {
        $client = $this->client();
        for ($n = 0; $n < 3000; $n++) {
            $client->track(['userId' => 'u', 'event' => 'E']);
        }
        self::assertSame(Uploader::DONE, $this->upload());
        $sizes = $this->transport->sizes();
        self::assertSame(3000, array_sum($sizes));
        self::assertSame(["$this->log.lock"], glob("$this->folder/*"));
        self::assertSame(Uploader::DONE, $this->upload());
        self::assertSame($sizes, $this->transport->sizes());
    }

    public function testAnUploadThatWasEndedGoesOnWhereItWas(): void
    {
        $this->log([...array_fill(0, 3000, '{"type":"track","userId":"u","event":"E"}')]);
        $this->transport->answers = [new Answer(200), Answer::read(401, '{"code":"unknown_write_key"}', null)];
        self::assertSame(Uploader::REFUSED, $this->upload());
        $this->log(['{"type":"track","userId":"u","event":"New"}']);
        $this->transport->answers = [Answer::none(7, 'away')];
        self::assertSame(Uploader::LATER, $this->upload(0.0));
        self::assertSame(Uploader::DONE, $this->upload());
        $events = array_merge($this->transport->bodies[0]['batch'], ...array_column(array_slice($this->transport->bodies, 3), 'batch'));
        self::assertCount(3001, $events);
        self::assertCount(3001, array_unique(array_column($events, 'messageId')));
        self::assertSame('New', end($events)['event']);
        // The batch that had no answer came again with the same messageIds.
        $ids = static fn (array $body) => array_column($body['batch'], 'messageId');
        self::assertSame($ids($this->transport->bodies[1]), $ids($this->transport->bodies[3]));
    }

    public function testLinesThatCannotBeUploadedAreKeptOnce(): void
    {
        $lines = ['{"n":1}', 'no json', '[]', "\"\xff\"", '{"long":"' . str_repeat('x', 40_000) . '"}', '', '{"n":2}', '{"bad":1}'];
        $this->log([...$lines, str_repeat('y', 3_000_000), '{"n":3}']);
        $this->transport->answers = array_fill(0, 9, static fn (array $batch) => str_contains(json_encode($batch), '"bad":1')
            ? Answer::read(400, '{"code":"invalid_body","message":"No."}', null) : new Answer(200));
        self::assertSame(Uploader::SET_ASIDE, $this->upload());
        $entries = array_map(static fn ($line) => json_decode($line, true), file("$this->log.rejected"));
        $reasons = array_column($entries, 'reason');
        sort($reasons);
        self::assertSame(
            ['event_too_large', 'event_too_large', 'invalid_body', 'invalid_item', 'invalid_json', 'invalid_utf8'],
            array_values(array_unique($reasons)) === $reasons ? $reasons : self::fewer($reasons)
        );
        $taken = array_filter($this->transport->events(), static fn ($event) => isset($event['n']));
        self::assertSame([1, 2, 3], array_values(array_unique(array_column($taken, 'n'))));
    }

    public function testAFileOfShortLinesThatAreNoEventsNeedsLittleMemory(): void
    {
        $this->log(array_fill(0, 60_000, 'x'));
        $before = memory_get_usage();
        Files::quietly(function () use ($before): void {
            $side = new SideFile("$this->log.rejected", 'upload');
            $offsets = 0;
            foreach ((new LineReader(fopen($this->log, 'r'), 0, 'upload'))->batches() as $batch) {
                $side->keep($batch['aside']);
                $offsets += count($batch['aside']);
                self::assertLessThan(12_000_000, memory_get_usage() - $before);
            }
            self::assertSame(60_000, $offsets);
            unset($batch);
            $side->keep([['offset' => 120_000, 'data' => 'x', 'reason' => 'invalid_json', 'message' => '']]);
            self::assertLessThan(1_000_000, memory_get_usage() - $before);
        });
        self::assertCount(60_001, file("$this->log.rejected"));
    }

    public function testAReadThatFailsIsNotTheEndOfTheFile(): void
    {
        file_put_contents($this->log, '{"userId":"u"}');
        $lines = new LineReader(fopen($this->log, 'a'), 0, 'upload'); // which nobody may read, as of a disk that fails
        $this->expectException(FileException::class);
        Files::quietly(static fn () => iterator_to_array($lines->batches()));
    }

    public function testWhatPhpAloneRefusesIsNoReasonToSetALineAside(): void
    {
        // A name as `(array) $object` has it, and half of a surrogate pair, as of an emoji that was cut.
        $good = [
            '{"messageId":"0","\u0000*\u0000name":1}',
            '{"messageId":"1","a":"cut \\ud83d"}',
            '{"messageId":"2","a":"\\\\\\udE00 \\ud83d\\ude00"}',
        ];
        $this->log([...$good, '{"messageId":"3","a":"\\ud83d}']);
        $lines = new LineReader(fopen($this->log, 'r'), 0, 'upload');
        $batch = Files::quietly(static fn () => iterator_to_array($lines->batches()))[0];
        self::assertSame($good, array_column($batch['events'], 'data'));
        self::assertSame(['invalid_json'], array_column($batch['aside'], 'reason'));
    }

    public function testOneUploaderAtATime(): void
    {
        $this->log(['{"n":1}']);
        $lock = fopen("$this->log.lock", 'c');
        chmod("$this->log.lock", 0600);
        flock($lock, LOCK_EX);
        self::assertSame(Uploader::LATER, $this->upload());
        self::assertFileExists($this->log);
    }

    public function testWhatIsWrittenDuringAnUploadByAWriterWithoutALockIsSentToo(): void
    {
        $this->log(['{"n":1}']);
        $this->transport->answers = [function (): Answer {
            file_put_contents("$this->log.uploading", '{"n":2}' . "\n", FILE_APPEND);
            return new Answer(200);
        }];
        self::assertSame(Uploader::DONE, $this->upload());
        self::assertSame([1, 2], array_column($this->transport->events(), 'n'));
    }

    public function testManyWritersAndUploadersLoseNothing(): void
    {
        $program = 'require ' . var_export(dirname(__DIR__) . '/autoload.php', true) . ';
            $c = new Hookline\Client("wk", ["consumer" => "file", "filename" => ' . var_export($this->log, true) . ']);
            for ($n = 0; $n < 1500; $n++) { $c->track(["userId" => $argv[1], "event" => "E$n"]) || exit(1); }';
        $writers = [];
        for ($n = 0; $n < 4; $n++) {
            $writers[] = proc_open([PHP_BINARY, '-r', $program, '--', "u$n"], [], $pipes);
        }
        do {
            Files::quietly(fn () => $this->upload());
            $writers = array_filter($writers, static fn ($writer) => proc_get_status($writer)['running']);
        } while ($writers !== []);
        $this->upload();
        $seen = array_map(static fn ($event) => $event['userId'] . $event['event'], $this->transport->events());
        self::assertCount(6000, $seen);
        self::assertCount(6000, array_unique($seen));
    }

    public function testAPlaceOfPythonsUploaderIsContinued(): void
    {
        $this->log(['{"n":1}', '{"n":2}']);
        rename($this->log, "$this->log.uploading");
        file_put_contents("$this->log.uploading.place", '{"upload": "abc", "offset_bytes": 8}');
        self::assertSame('abc', Files::quietly(fn () => TakenFile::take($this->log))?->upload);
        chmod("$this->log.uploading.place", 0600);
        self::assertSame(Uploader::DONE, $this->upload());
        self::assertSame([2], array_column($this->transport->events(), 'n'));
        self::assertSame(['abc-8'], array_column($this->transport->events(), 'messageId'));
    }

    public function testAPlaceBeyondTheEndBeginsTheFileAnew(): void
    {
        $this->log(['{"n":1}']);
        rename($this->log, "$this->log.uploading");
        file_put_contents("$this->log.uploading.place", '{"upload": "abc", "offset_bytes": 1000000}');
        chmod("$this->log.uploading.place", 0600);
        self::assertSame(Uploader::DONE, $this->upload());
        self::assertSame([1], array_column($this->transport->events(), 'n'));
    }

    private static function fewer(array $reasons): array
    {
        // A line of megabytes is kept in pieces.
        $long = array_keys($reasons, 'event_too_large', true);
        return array_values(array_diff_key($reasons, array_flip(array_slice($long, 2))));
    }

    private function client(array $options = []): Client
    {
        return new Client('wk', $options + ['consumer' => 'file', 'filename' => $this->log]);
    }

    private function upload(float $retrySeconds = 1.0): int
    {
        $options = Options::resolve('wk', ['filename' => $this->log, 'transport' => $this->transport]);
        return (new Uploader($options, $retrySeconds))->run();
    }

    /** @param list<string> $lines */
    private function log(array $lines): void
    {
        file_put_contents($this->log, implode("\n", $lines) . "\n", FILE_APPEND);
        chmod($this->log, 0600);
    }
}
