<?php

declare(strict_types=1);

namespace Hookline\Upload;

use Hookline\HooklineException;
use Hookline\Message;
use Hookline\Options;

/** The command `send.php`: arguments in, an exit code out, and one line on standard error when something is wrong. */
final class Command
{
    private const USAGE = 2;
    /** For one request of up to 500 KB. */
    private const TIMEOUT_SECONDS = 30.0;
    private const RETRY_SECONDS_MAX = 86_400;
    private const VALUES = ['secret', 'file', 'endpoint', 'ca-file', 'timeout', 'retry-for'];
    private const SWITCHES = ['gzip', 'json', 'verbose', 'version', 'help'];
    private const HELP = <<<'TEXT'
        usage: send.php --secret KEY --file PATH [--endpoint URL] [options]

        Upload the log of the file consumer. Made to run every minute; a run goes on where the last one ended.

          --secret KEY         the write key; better in HOOKLINE_CLIENT_WRITE_KEY: everyone sees arguments
          --file PATH          the log file (HOOKLINE_CLIENT_FILENAME; default /tmp/analytics.log)
          --endpoint URL       the service (HOOKLINE_CLIENT_ENDPOINT; default http://127.0.0.1:8080)
          --ca-file PEM        certificate authorities to trust instead of the system's
          --timeout SECONDS    for one request (default 30)
          --retry-for SECONDS  how long a batch is tried before the run ends with 75 (default 20)
          --gzip               compress requests
          --json               print what was done as one JSON object
          --verbose            say what was done
          --version            print the version

        exit codes:
           0  everything was acknowledged, or there was nothing to do
           2  the arguments cannot be used
          65  as 0, but some lines cannot be uploaded: they are in FILE.rejected
          74  a file cannot be read, written or renamed, or somebody else may have put it there
          75  not now: the service is away, or another uploader is at this file; the next run goes on
          77  the service refuses the write key, or what answers at the endpoint is not Hookline

        TEXT;

    /**
     * Run the command and return its exit code.
     *
     * @param list<string> $arguments without the program's name
     */
    public static function main(array $arguments): int
    {
        try {
            $given = self::parsed($arguments);
            if (isset($given['help']) || isset($given['version'])) {
                fwrite(STDOUT, isset($given['help']) ? self::HELP : 'send.php ' . Message::VERSION . "\n");
                return 0;
            }
            $options = Options::resolve($given['secret'] ?? null, [
                'filename' => $given['file'] ?? null,
                'endpoint' => $given['endpoint'] ?? null,
                'ca_file' => $given['ca-file'] ?? null,
                'gzip' => isset($given['gzip']) ? true : null,
                'timeout' => self::seconds('timeout', $given['timeout'] ?? self::TIMEOUT_SECONDS),
            ]);
            $retry = self::seconds('retry-for', $given['retry-for'] ?? Uploader::RETRY_SECONDS);
            if ($options->write_key === '') {
                throw self::wrong('give the write key: --secret KEY, or HOOKLINE_CLIENT_WRITE_KEY in the environment');
            }
        } catch (HooklineException $failure) {
            fwrite(STDERR, 'send.php: ' . $failure->getMessage() . "; --help has all arguments\n");
            return self::USAGE;
        }
        $uploader = new Uploader($options, $retry);
        $code = $uploader->run();
        self::report($uploader, $code, $given);
        return $code;
    }

    /** @param array<string, string|true> $given */
    private static function report(Uploader $uploader, int $code, array $given): void
    {
        if (isset($given['json'])) {
            $counts = ['acknowledged' => $uploader->acknowledged, 'setAside' => $uploader->setAside];
            $shown = $counts + ['problems' => $uploader->problems, 'exitCode' => $code];
            fwrite(STDOUT, json_encode($shown, JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES) . "\n");
            return;
        }
        foreach ($uploader->problems as $problem) {
            fwrite(STDERR, "send.php: $problem\n");
        }
        if (isset($given['verbose'])) { // else nothing: schedulers send mail about output
            fwrite(STDERR, "events uploaded: $uploader->acknowledged\n");
        }
    }

    /**
     * @param list<string> $arguments
     * @return array<string, string|true>
     */
    private static function parsed(array $arguments): array
    {
        $given = [];
        while ($arguments !== []) {
            $argument = array_shift($arguments);
            [$name, $value] = explode('=', substr($argument, 2), 2) + [1 => null];
            if (!str_starts_with($argument, '--') || !in_array($name, [...self::VALUES, ...self::SWITCHES], true)) {
                throw self::wrong("there is no argument $argument");
            }
            if (in_array($name, self::SWITCHES, true)) {
                $given[$name] = true;
            } else {
                $given[$name] = $value ?? array_shift($arguments) ?? throw self::wrong("--$name needs a value");
            }
        }
        return $given;
    }

    private static function seconds(string $name, mixed $given): float
    {
        $seconds = filter_var($given, FILTER_VALIDATE_FLOAT);
        if ($seconds === false || $seconds < 0 || $seconds > self::RETRY_SECONDS_MAX) {
            throw self::wrong("--$name must be seconds from 0 to 86,400");
        }
        return $seconds;
    }

    private static function wrong(string $sentence): HooklineException
    {
        return new HooklineException('invalid_option', $sentence);
    }
}
