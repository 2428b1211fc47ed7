<?php

declare(strict_types=1);

namespace Hookline\Tests;

use Hookline\Client;
use Hookline\Hookline;
use Hookline\HooklineException;
use Hookline\Options;
use PHPUnit\Framework\TestCase;

/** Options, where they come from, and the one client of a process. */
final class OptionsTest extends TestCase
{
    protected function tearDown(): void
    {
        putenv('HOOKLINE_CLIENT_BATCH_SIZE');
        putenv('HOOKLINE_CLIENT_GZIP');
        putenv('HOOKLINE_CLIENT_DEFAULT_CONTEXT');
        Hookline::close();
    }

    /** @dataProvider endpoints */
    public function testWhereBatchesGo(array $options, string $url): void
    {
        self::assertSame($url, Options::resolve('wk', $options)->url);
    }

    public static function endpoints(): iterable
    {
        return [
            [[], 'http://127.0.0.1:8080/v1/batch'],
            [['host' => 'events.example.com'], 'https://events.example.com/v1/batch'],
            [['host' => 'events.example.com:81', 'ssl' => false], 'http://events.example.com:81/v1/batch'],
            [['endpoint' => 'https://e.example.com/in/v1/'], 'https://e.example.com/in/v1/batch'],
            [['endpoint' => 'http://[::1]:8080'], 'http://[::1]:8080/v1/batch'],
        ];
    }

    /** @dataProvider wrongOnes */
    public function testAWrongOptionIsNamed(array $options, string $says): void
    {
        $this->expectException(HooklineException::class);
        $this->expectExceptionMessageMatches("/$says/");
        Options::resolve('wk', $options);
    }

    public static function wrongOnes(): iterable
    {
        return [
            [['batchsize' => 1], 'no option batchsize; did you mean batch_size'],
            [['batch_size' => 0], 'batch_size must be a number from 1 to 2,500, not 0'],
            [['timeout' => '1'], 'timeout must be a number'],
            [['consumer' => 'background'], 'must be one of lib_curl, fork_curl, socket, file'],
            [['endpoint' => 'ftp://x'], 'must look like'],
            [['endpoint' => 'https://x', 'ssl' => false], 'contradicts'],
            [['error_handler' => 1], 'must be callable'],
            [['default_context' => [1]], 'must be a mapping'],
            [['filename' => "a\nb"], 'line ends'],
            [['transport' => new \stdClass()], 'Transport'],
        ];
    }

    public function testAPathIsAboutTheFolderInWhichTheClientIsMade(): void
    {
        $before = getcwd();
        chdir(__DIR__);
        $options = Options::resolve('wk', ['filename' => 'app.log', 'ca_file' => basename(__FILE__)]);
        chdir($before);
        self::assertSame([__DIR__ . '/app.log', __FILE__], [$options->filename, $options->ca_file]);
    }

    public function testAWriteKeyIsNeverShown(): void
    {
        $this->expectException(HooklineException::class);
        $this->expectExceptionMessageMatches('/^((?!secret).)*$/');
        Options::resolve("secret\n", []);
    }

    /** @testWith ["", "password"]
     *            ["\n", "not string"]
     */
    public function testAPasswordInAnEndpointIsNotShown(string $end, string $says): void
    {
        $this->expectException(HooklineException::class);
        $this->expectExceptionMessageMatches("/^((?!secret).)*$says$/");
        Options::resolve('wk', ['endpoint' => "https://user:secret@example.com$end"]);
    }

    /** @requires PHP 8.2 */
    public function testNoTraceOfWhatIsThrownHoldsTheWriteKey(): void
    {
        foreach ([['flush_at' => 0], ['endpoint' => 'ftp://x'], ['write_key' => "secret\n"]] as $options) {
            ini_set('zend.exception_ignore_args', '0'); // as where there is no php.ini
            ini_set('zend.exception_string_param_max_len', '15');
            try {
                Hookline::init('secret', $options);
                self::fail('nothing was thrown');
            } catch (HooklineException $failure) {
                self::assertStringNotContainsString('secret', (string) $failure);
                foreach ($failure->getTrace() as $frame) {
                    if (in_array($frame['class'] ?? '', [Hookline::class, Client::class, Options::class], true)) {
                        self::assertStringNotContainsString('secret', print_r($frame['args'], true));
                    }
                }
            } finally {
                ini_restore('zend.exception_ignore_args');
                ini_restore('zend.exception_string_param_max_len');
            }
        }
    }

    public function testTheEnvironmentIsReadAndCodeWins(): void
    {
        putenv('HOOKLINE_CLIENT_BATCH_SIZE=7');
        putenv('HOOKLINE_CLIENT_GZIP=true');
        putenv('HOOKLINE_CLIENT_DEFAULT_CONTEXT={"app":"shop"}');
        $options = Options::resolve('wk', ['batch_size' => 8]);
        self::assertSame([8, true, ['app' => 'shop']], [$options->batch_size, $options->gzip, $options->default_context]);
        putenv('HOOKLINE_CLIENT_BATCH_SIZE=many');
        $this->expectExceptionMessageMatches('/HOOKLINE_CLIENT_BATCH_SIZE cannot be/');
        Options::resolve('wk', []);
    }

    public function testInitIsOncePerProcess(): void
    {
        $transport = new ScriptedTransport();
        $client = Hookline::init('wk', ['transport' => $transport, 'error_handler' => static fn () => 1]);
        self::assertSame($client, Hookline::init('wk', ['transport' => $transport, 'error_handler' => static fn () => 2]));
        self::assertTrue(Hookline::track(['userId' => 'u', 'event' => 'E']));
        self::assertTrue(Hookline::page('u', 'Home'));
        self::assertTrue(Hookline::flush());
        self::assertSame([2], $transport->sizes());
        $this->expectException(HooklineException::class);
        Hookline::init('wk2');
    }

    public function testCallsBeforeInitAreIgnored(): void
    {
        $before = ini_set('error_log', '/dev/null');
        self::assertFalse(Hookline::track(['userId' => 'u', 'event' => 'E']));
        ini_set('error_log', (string) $before);
    }

    public function testALoggerHearsOfLosses(): void
    {
        $logger = new class {
            /** @var list<string> */
            public array $lines = [];

            public function log(string $level, string $message): void
            {
                $this->lines[] = "$level $message";
            }
        };
        $client = new \Hookline\Client('wk', ['logger' => $logger, 'transport' => new ScriptedTransport()]);
        $client->track([]);
        $client->track([]);
        self::assertCount(1, $logger->lines);
        self::assertStringStartsWith('warning missing_user_id: ', $logger->lines[0]);
    }
}
