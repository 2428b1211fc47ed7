<?php

declare(strict_types=1);

namespace Hookline\Tests;

use Hookline\Answer;
use Hookline\Client;
use PHPUnit\Framework\TestCase;

/** The queue of lib_curl: batches, retries, halves, and what a full one does. */
final class QueueTest extends TestCase
{
    private ScriptedTransport $transport;
    /** @var list<string> */
    private array $codes = [];
    /** @var list<string> */
    private array $acknowledged = [];

    protected function setUp(): void
    {
        $this->transport = new ScriptedTransport();
        $this->codes = $this->acknowledged = [];
    }

    public function testCallsLeaveInBatches(): void
    {
        $client = $this->client(['batch_size' => 10]);
        $this->track($client, 25);
        self::assertSame([10, 10], $this->transport->sizes());
        $client->flush();
        self::assertSame([10, 10, 5], $this->transport->sizes());
        self::assertSame(range(0, 24), array_map(static fn ($event) => $event['properties']['n'], $this->transport->events()));
    }

    public function testARequestIsNeverTooLarge(): void
    {
        $client = $this->client();
        for ($n = 0; $n < 40; $n++) {
            $client->track(['userId' => 'u', 'event' => 'E', 'properties' => ['x' => str_repeat('x', 30_000)]]);
        }
        self::assertTrue($client->flush());
        self::assertSame([16, 16, 8], $this->transport->sizes());
    }

    public function testWhatWaitsForLongLeavesWithTheNextCall(): void
    {
        $client = $this->client(['flush_after' => 0.01]);
        $this->track($client, 1);
        usleep(15_000);
        $this->track($client, 1);
        self::assertSame([2], $this->transport->sizes());
    }

    /** @dataProvider passing */
    public function testABusyServiceIsTriedAgain(Answer $answer): void
    {
        $this->transport->answers = [$answer, $answer];
        $client = $this->client(['debug' => true]);
        $this->track($client, 1);
        self::assertTrue($client->flush());
        self::assertSame([1, 1, 1], $this->transport->sizes());
        self::assertSame(1, $client->stats()['accepted']);
        self::assertSame([$answer->code], $this->codes); // told once
        self::assertSame(array_column($this->transport->events(), 'messageId')[0], $this->acknowledged[0]);
        self::assertCount(1, array_unique(array_column($this->transport->events(), 'messageId')));
    }

    public static function passing(): iterable
    {
        foreach ([408, 425, 429, 500, 503] as $status) {
            yield [Answer::read($status, '{"code":"busy","message":"Wait."}', '0')];
        }
        yield [Answer::none(7, 'refused')];
        yield [Answer::none(28, 'timed out')];
    }

    public function testTheBudgetOfRetriesEnds(): void
    {
        $this->transport->answers = array_fill(0, 5, Answer::read(503, '', '0'));
        $client = $this->client(['max_retries' => 1]);
        $this->track($client, 1);
        self::assertFalse($client->flush(5));
        self::assertSame([1, 1], $this->transport->sizes());
        self::assertSame(['server_error', 'server_error'], $this->codes);
        self::assertSame(1, $client->stats()['gave_up']);
    }

    public function testAPauseThatTheServiceAsksForIsKept(): void
    {
        $this->transport->answers = [Answer::read(429, '', '60')];
        $client = $this->client();
        $this->track($client, 1);
        $began = microtime(true);
        self::assertFalse($client->flush(0.2));
        self::assertFalse($client->flush(0.2));
        self::assertSame([[1], 1], [$this->transport->sizes(), $client->waiting()]);
        self::assertLessThan(1.0, microtime(true) - $began);
    }

    /** @dataProvider dates */
    public function testADateOfHttpIsInUtcWhateverTheTimeOfThePageIs(string $form): void
    {
        $zone = date_default_timezone_get();
        date_default_timezone_set('America/New_York');
        try {
            $pause = Answer::read(503, '', gmdate($form, time() + 60))->retryAfterSeconds;
        } finally {
            date_default_timezone_set($zone);
        }
        self::assertEqualsWithDelta(60.0, $pause, 30.0);
    }

    public static function dates(): iterable
    {
        return [['D, d M Y H:i:s \G\M\T'], ['l, d-M-y H:i:s \G\M\T'], ['D M j H:i:s Y'], ['D, d M Y H:i:s O']];
    }

    /** @dataProvider noTimes */
    public function testARetryAfterThatIsNoTimeFromNowIsPassedOver(string $header): void
    {
        self::assertNull(Answer::read(503, '', $header)->retryAfterSeconds);
    }

    public static function noTimes(): iterable
    {
        return [['-5'], ['1.5'], ['+3'], ['soon'], ['tomorrow'], ['now'], [''], ['Thu, 99 Jan 2026 99:00:00 GMT']];
    }

    public function testCallsLeaveAServiceThatIsAwayAlone(): void
    {
        $this->transport->answers = array_fill(0, 1000, Answer::none(7, 'refused'));
        $client = $this->client(['batch_size' => 10]);
        $this->track($client, 500);
        self::assertLessThan(20, count($this->transport->bodies));
        self::assertSame(500, $client->waiting());
        $this->transport->answers = [];
        self::assertTrue($client->flush());
        self::assertSame(500, $client->stats()['handed_over']);
    }

    public function testATooLargeRequestIsHalved(): void
    {
        $refuse = static fn (array $batch) => count(array_filter($batch, static fn ($event) => $event['properties']['n'] === 5))
            ? Answer::read(413, '', null) : new Answer(200);
        $this->transport->answers = array_fill(0, 20, $refuse);
        $client = $this->client();
        $this->track($client, 8);
        self::assertFalse($client->flush());
        self::assertSame([8, 4, 4, 2, 1, 1, 2], $this->transport->sizes());
        self::assertSame(['refused'], $this->codes);
        self::assertSame([7, 1], [$client->stats()['handed_over'], $client->stats()['gave_up']]);
    }

    public function testRefusalsAreHeardOfInDebugOnly(): void
    {
        $refused = Answer::read(401, '{"code":"unknown_write_key","message":"Which?"}', null);
        $this->transport->answers = [$refused];
        $client = $this->client();
        $this->track($client, 1);
        self::assertTrue($client->flush());
        self::assertSame([[], 1], [$this->codes, $client->stats()['handed_over']]);
        $this->transport->answers = [$refused];
        $client = $this->client(['debug' => true]);
        $this->track($client, 1);
        self::assertSame([['unknown_write_key'], 1], [$this->codes, $client->stats()['gave_up']]);
    }

    public function testARejectedEventLeavesTheOthersAlone(): void
    {
        $this->transport->answers = [Answer::read(200, '{"success":true,"rejected":[{"index":0,"code":"bad","message":"No."}]}', null)];
        $client = $this->client(['debug' => true]);
        $this->track($client, 1);
        self::assertSame([['bad'], 1, 0], [$this->codes, $client->stats()['rejected'], $client->stats()['accepted']]);
    }

    public function testAFullQueueRefusesOrDropsOrBlocks(): void
    {
        foreach (['drop_new' => [0, 1, 2], 'drop_old' => [2, 3, 4]] as $policy => $kept) {
            $this->transport = new ScriptedTransport([Answer::none(7, 'away')]);
            $client = $this->client(['on_full' => $policy, 'max_queue_size' => 3, 'flush_at' => 3]);
            $this->transport->answers = array_fill(0, 3, Answer::read(503, '', '60'));
            $this->track($client, 5);
            self::assertSame(2, $client->stats()['dropped'], $policy);
            $this->transport->answers = [];
            self::assertSame(3, $client->waiting());
        }
        $this->transport = new ScriptedTransport([Answer::none(7, 'away'), Answer::none(7, 'away')]);
        $client = $this->client(['on_full' => 'block', 'block_timeout' => 5.0, 'max_queue_size' => 3]);
        $this->track($client, 20);
        $client->flush();
        self::assertSame([20, 0], [$client->stats()['handed_over'], $client->stats()['dropped']]);
    }

    /** @dataProvider policies */
    public function testACallSendsOneBatchAtMostAlsoWhenTheQueueIsFull(string $policy): void
    {
        $this->transport->answers = [Answer::read(503, '', '0')];
        $client = $this->client(['on_full' => $policy, 'max_queue_size' => 3, 'flush_at' => 3, 'batch_size' => 1]);
        $this->track($client, 3); // the last of them tries
        usleep(300_000); // longer than the pause after it
        $this->track($client, 1);
        self::assertSame([1, 1], $this->transport->sizes());
    }

    public static function policies(): array
    {
        return [['drop_new'], ['drop_old'], ['block']];
    }

    public function testTheQueueIsBoundedInBytes(): void
    {
        $this->transport->answers = array_fill(0, 9, Answer::read(503, '', '60'));
        $client = $this->client(['max_queue_bytes' => 1000]);
        $this->track($client, 20);
        self::assertLessThan(6, $client->waiting());
        self::assertContains('queue_full', $this->codes);
    }

    public function testAHandlerMayCallTheClient(): void
    {
        $client = null;
        $this->transport->answers = [Answer::read(413, '', null)];
        $client = new Client('wk', ['transport' => $this->transport, 'error_handler' => static function () use (&$client): void {
            $client->track(['userId' => 'u', 'event' => 'Lost']);
            $client->flush();
        }]);
        $this->track($client, 1);
        $client->flush();
        self::assertSame(['E', 'Lost'], array_column($this->transport->events(), 'event'));
        $client->close();
    }

    public function testWhatATransportThrowsIsAFault(): void
    {
        $this->transport->answers = [static fn () => throw new \LogicException('no')];
        $client = $this->client();
        $this->track($client, 1);
        self::assertTrue($client->flush() || $client->flush());
        self::assertSame(['connection_failed'], $this->codes);
    }

    public function testACloseFlushesAndEnds(): void
    {
        $client = $this->client();
        $this->track($client, 3);
        self::assertTrue($client->close());
        self::assertSame([3], $this->transport->sizes());
        self::assertFalse($client->track(['userId' => 'u', 'event' => 'E']));
        self::assertSame(['closed'], $this->codes);
    }

    public function testAClientThatIsGoneLeavesNothingBehind(): void
    {
        $make = function (int $count): int {
            for ($n = 0; $n < $count; $n++) {
                $this->client()->close();
            }
            return memory_get_usage();
        };
        $before = $make(100);
        self::assertLessThan(100_000, $make(1_000) - $before);
    }

    private function client(array $options = []): Client
    {
        ini_set('error_log', '/dev/null');
        return new Client('wk', $options + [
            'transport' => $this->transport,
            'exit_timeout' => 0.1,
            'error_handler' => function (string $code): void {
                $this->codes[] = $code;
            },
            'on_success' => function (array $ids): void {
                array_push($this->acknowledged, ...$ids);
            },
        ]);
    }

    private function track(Client $client, int $count): void
    {
        for ($n = 0; $n < $count; $n++) {
            $client->track(['userId' => 'u', 'event' => 'E', 'properties' => ['n' => $n]]);
        }
    }
}
