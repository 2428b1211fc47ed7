<?php

declare(strict_types=1);

namespace Hookline\Tests;

use Hookline\Client;
use Hookline\HooklineException;
use Hookline\Message;
use PHPUnit\Framework\TestCase;

/** From a call to the event on the wire. */
final class CallsTest extends TestCase
{
    private ScriptedTransport $transport;

    protected function setUp(): void
    {
        $this->transport = new ScriptedTransport();
    }

    public function testEveryCallArrivesWithItsFields(): void
    {
        $client = $this->client();
        $client->identify(['userId' => 'u1', 'traits' => ['plan' => 'pro']]);
        $client->track(['anonymousId' => 'a1', 'event' => 'Bought', 'properties' => ['total' => 12.0]]);
        $client->page(['userId' => 'u1', 'category' => 'Docs', 'name' => 'Home', 'properties' => []]);
        $client->screen(['userId' => 7, 'name' => 'Start', 'traits' => ['a' => 1]]);
        $client->group(['userId' => 'u1', 'groupId' => 'g1', 'extra' => [1, 2], 'writeKey' => 'x', 'type' => 'x']);
        $client->alias(['previousId' => 'a1', 'userId' => 'u1']);
        self::assertTrue($client->flush());
        $bare = array_map(
            static fn ($event) => array_diff_key($event, ['messageId' => 0, 'timestamp' => 0, 'context' => 0]),
            $this->transport->events()
        );
        self::assertSame([
            ['type' => 'identify', 'userId' => 'u1', 'traits' => ['plan' => 'pro']],
            ['type' => 'track', 'anonymousId' => 'a1', 'event' => 'Bought', 'properties' => ['total' => 12.0]],
            ['type' => 'page', 'userId' => 'u1', 'category' => 'Docs', 'name' => 'Home', 'properties' => []],
            ['type' => 'screen', 'userId' => '7', 'name' => 'Start', 'properties' => ['a' => 1]],
            ['type' => 'group', 'userId' => 'u1', 'groupId' => 'g1', 'extra' => [1, 2]],
            ['type' => 'alias', 'userId' => 'u1', 'previousId' => 'a1'],
        ], $bare);
        foreach ($this->transport->events() as $event) {
            self::assertSame(['library' => Message::LIBRARY], $event['context']);
            self::assertMatchesRegularExpression('/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/', $event['timestamp']);
        }
        self::assertMatchesRegularExpression('/\.\d{3}Z$/', $this->transport->bodies[0]['sentAt']);
        self::assertCount(6, array_unique(array_column($this->transport->events(), 'messageId')));
    }

    public function testASingleStringOfAPageIsTheName(): void
    {
        $client = $this->client();
        $client->page('u1', 'Home');
        $client->screen('u1', 'Docs', 'Start', ['a' => 1]);
        $client->flush();
        [$page, $screen] = $this->transport->events();
        self::assertSame(['Home', false], [$page['name'], isset($page['category'])]);
        self::assertSame(['Docs', 'Start', ['a' => 1]], [$screen['category'], $screen['name'], $screen['properties']]);
    }

    public function testAPageOfNobodyIsAMistakeAndThrowsNothing(): void
    {
        $told = [];
        $client = $this->client(['error_handler' => static function (string $code) use (&$told): void {
            $told[] = $code;
        }]);
        self::assertFalse($client->page(null, 'Home'));
        self::assertFalse($client->screen(false, 'Start'));
        self::assertSame(['missing_user_id', 'invalid_field'], $told);
    }

    /** @dataProvider mistakes */
    public function testAMistakeIsToldAndNotSent(string $code, string $type, array $message): void
    {
        $told = [];
        $client = $this->client(['error_handler' => static function (string $code) use (&$told): void {
            $told[] = $code;
        }]);
        self::assertFalse($client->$type($message));
        self::assertSame([$code], $told);
        self::assertSame(1, $client->stats()['invalid']);
        $this->expectExceptionObject(new HooklineException($code));
        $this->expectExceptionMessageMatches('/./');
        try {
            $this->client(['strict' => true])->$type($message);
        } catch (HooklineException $failure) {
            self::assertSame($code, $failure->errorCode);
            throw new HooklineException($code);
        }
    }

    public static function mistakes(): iterable
    {
        $circle = [];
        $circle['circle'] = &$circle;
        $deep = [];
        for ($level = 0; $level < 120; $level++) {
            $deep = ['a' => $deep];
        }
        return [
            ['missing_user_id', 'track', ['event' => 'E']],
            ['missing_user_id', 'alias', ['anonymousId' => 'a', 'previousId' => 'b']],
            ['missing_event', 'track', ['userId' => 'u']],
            ['missing_group_id', 'group', ['userId' => 'u']],
            ['missing_previous_id', 'alias', ['userId' => 'u']],
            ['missing_name', 'page', ['userId' => 'u', 'category' => 'Docs']],
            ['invalid_field', 'track', ['userId' => true, 'event' => 'E']],
            ['invalid_field', 'track', ['userId' => NAN, 'event' => 'E']],
            ['invalid_field', 'track', ['userId' => 'u', 'event' => 'E', 'properties' => ['a', 'b']]],
            ['invalid_field', 'track', ['userId' => 'u', 'event' => 'E', 'context' => 'x']],
            ['invalid_timestamp', 'track', ['userId' => 'u', 'event' => 'E', 'timestamp' => 'yesterday']],
            ['invalid_timestamp', 'track', ['userId' => 'u', 'event' => 'E', 'timestamp' => INF]],
            ['invalid_message_id', 'track', ['userId' => 'u', 'event' => 'E', 'messageId' => str_repeat('é', 513)]],
            ['event_too_large', 'track', ['userId' => 'u', 'event' => 'E', 'properties' => ['a' => str_repeat('x', 33000)]]],
            ['not_serialisable', 'track', ['userId' => 'u', 'event' => 'E', 'properties' => $circle]],
            ['not_serialisable', 'track', ['userId' => 'u', 'event' => 'E', 'properties' => $deep]],
        ];
    }

    public function testTheLargestEventIsTaken(): void
    {
        $client = $this->client(['default_context' => ['a' => 1]]);
        $event = ['userId' => 'u', 'event' => 'E', 'messageId' => 'm', 'timestamp' => 1];
        $client->track(['properties' => ['x' => '']] + $event);
        $client->flush();
        $rest = Message::BYTES_MAX - strlen(json_encode($this->transport->events()[0], JSON_UNESCAPED_SLASHES));
        // An empty object reads as a list of PHP: two bytes as well.
        self::assertTrue($client->track(['properties' => ['x' => str_repeat('y', $rest)]] + $event));
        self::assertFalse($client->track(['properties' => ['x' => str_repeat('y', $rest + 1)]] + $event));
    }

    /** @dataProvider times */
    public function testATimestampIsKeptWithItsMilliseconds(mixed $given, string $sent): void
    {
        $client = $this->client();
        $client->track(['userId' => 'u', 'event' => 'E', 'timestamp' => $given]);
        $client->flush();
        self::assertSame($sent, $this->transport->events()[0]['timestamp']);
    }

    public static function times(): iterable
    {
        return [
            [0, '1970-01-01T00:00:00.000Z'],
            [1700000000.123, '2023-11-14T22:13:20.123Z'],
            ['1700000000.5', '2023-11-14T22:13:20.500Z'],
            [-0.25, '1969-12-31T23:59:59.750Z'],
            [1700000000123, '2023-11-14T22:13:20.123Z'],
            ['2020-02-03T04:05:06+01:00', '2020-02-03T04:05:06+01:00'],
            [new \DateTimeImmutable('2020-02-03T04:05:06.789+01:00'), '2020-02-03T03:05:06.789Z'],
        ];
    }

    public function testValuesThatJsonHasNoWordFor(): void
    {
        $client = $this->client();
        $values = [
            'nan' => NAN,
            'time' => new \DateTime('2020-01-01T00:00:00Z'),
            'never' => new \DateTime('9999-12-31T23:59:59-05:00'), // of no year in UTC
            'later' => new \DateTime('@999999999999'),
            'bytes' => "a\xffb",
            'text' => "é/\u{2028}",
            'object' => new \ArrayObject(['a' => INF]),
            'empty' => new \stdClass(),
            'list' => [],
            'unknown' => static fn () => 1,
            'whole' => 3.0,
            'big' => PHP_INT_MAX,
        ];
        self::assertTrue($client->track(['userId' => 'u', 'event' => 'E', 'properties' => $values]));
        $client->flush();
        self::assertSame([
            'nan' => null,
            'time' => '2020-01-01T00:00:00.000Z',
            'never' => '9999-12-31T23:59:59.000-05:00',
            'later' => null,
            'bytes' => "a\u{fffd}b",
            'text' => "é/\u{2028}",
            'object' => ['a' => null],
            'empty' => [],
            'list' => [],
            'unknown' => null,
            'whole' => 3.0,
            'big' => PHP_INT_MAX,
        ], $this->transport->events()[0]['properties']);
    }

    public function testWhatTheCallerHoldsStaysAsItIs(): void
    {
        $when = new \DateTimeImmutable('2026-01-01');
        $rows = [['price' => 1.0], ['price' => NAN, 'at' => $when]];
        foreach ($rows as &$row) { // which leaves a reference behind, as everybody forgets
            $row['paid'] = true;
        }
        $held = (object) ['at' => &$when];
        $client = $this->client();
        $client->track(['userId' => 'u', 'event' => 'E', 'properties' => ['rows' => $rows, 'held' => $held]]);
        self::assertTrue(is_nan($rows[1]['price']));
        self::assertInstanceOf(\DateTimeImmutable::class, $rows[1]['at']);
        self::assertInstanceOf(\DateTimeImmutable::class, $when);
    }

    public function testContextAndIntegrationsAreLaidUnder(): void
    {
        $client = $this->client([
            'default_context' => ['ip' => '1.2.3.4', 'app' => 'shop', 'integrations' => ['A' => true]],
            'default_integrations' => ['All' => false],
        ]);
        $client->track(['userId' => 'u', 'event' => 'E', 'context' => ['app' => 'x', 'integrations' => ['B' => true]],
            'integrations' => ['C' => false]]);
        $client->flush();
        $event = $this->transport->events()[0];
        self::assertEquals(['ip' => '1.2.3.4', 'app' => 'x', 'library' => Message::LIBRARY], $event['context']);
        self::assertEquals(['C' => false, 'B' => true, 'All' => false, 'A' => true], $event['integrations']);
    }

    public function testBeforeSendChangesDropsAndFails(): void
    {
        $client = $this->client(['before_send' => static fn (array $event) => match ($event['event']) {
            'Drop' => null,
            'Fail' => throw new \LogicException('no'),
            default => ['properties' => []] + $event,
        }]);
        self::assertTrue($client->track(['userId' => 'u', 'event' => 'Keep', 'properties' => ['secret' => 1]]));
        self::assertFalse($client->track(['userId' => 'u', 'event' => 'Drop']));
        self::assertFalse($client->track(['userId' => 'u', 'event' => 'Fail']));
        $client->flush();
        self::assertSame([['Keep', []]], array_map(
            static fn ($event) => [$event['event'], $event['properties']],
            $this->transport->events()
        ));
        self::assertSame(1, $client->stats()['dropped']);
    }

    public function testWhatAHandlerThrowsStaysThere(): void
    {
        $client = $this->client(['error_handler' => static fn () => throw new \LogicException('no')]);
        self::assertFalse($client->track([]));
    }

    public function testAHandlerThatCausesTheNextLossItselfEnds(): void
    {
        $client = null;
        $told = 0;
        $client = $this->client(['error_handler' => static function () use (&$client, &$told): void {
            if (++$told < 1_000) { // not until the memory is used up
                $client?->track(['userId' => 'u1', 'event' => 'Lost']);
                $client?->track(['userId' => 'u1', 'event' => 'Lost as well']);
            }
        }]);
        $client->close();
        self::assertFalse($client->track(['userId' => 'u1', 'event' => 'E']));
        self::assertGreaterThan(1, $told);
        self::assertLessThan(1_000, $told);
        $before = $told;
        self::assertFalse($client->track(['userId' => 'u1', 'event' => 'E']));
        self::assertGreaterThan($before, $told);
    }

    public function testNothingIsSentWhenDisabledOrWithoutAKey(): void
    {
        self::assertFalse($this->client(['enabled' => false])->track(['userId' => 'u', 'event' => 'E']));
        self::assertFalse((new Client())->track(['userId' => 'u', 'event' => 'E']));
    }

    private function client(array $options = []): Client
    {
        return new Client('wk', $options + ['transport' => $this->transport]);
    }
}
