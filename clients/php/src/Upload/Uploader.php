<?php

declare(strict_types=1);

namespace Hookline\Upload;

use Hookline\Answer;
use Hookline\BatchRequest;
use Hookline\CurlTransport;
use Hookline\FileException;
use Hookline\Files;
use Hookline\Options;
use Hookline\Timestamp;
use Hookline\Transport;

/**
 * Uploads a log file: what an earlier run left, then what was written since, each to its end.
 *
 * @phpstan-import-type Line from LineReader
 */
final class Uploader
{
    // How a run ends: 0, and the codes of sysexits.h that schedulers know. Whatever the code, nothing is lost.
    public const DONE = 0;
    public const SET_ASIDE = 65;
    public const DISK = 74;
    public const LATER = 75;
    public const REFUSED = 77;

    /** How long one batch is tried in one run; a run every minute then ends before the next begins. */
    public const RETRY_SECONDS = 20.0;
    private const RETRY_FIRST_SECONDS = 0.25;
    private const RETRY_MAX_SECONDS = 5.0;

    public int $acknowledged = 0;
    public int $setAside = 0;
    /** @var list<string> */
    public array $problems = [];
    private readonly Transport $transport;

    public function __construct(
        private readonly Options $options,
        private readonly float $retrySeconds = self::RETRY_SECONDS,
    ) {
        $this->transport = $options->transport ?? new CurlTransport($options->ca_file);
    }

    /** Upload everything that was in the log when the run began; say how it ended. */
    public function run(): int
    {
        try {
            return Files::quietly(fn () => $this->runLocked());
        } catch (FileException $failure) {
            $isBusy = $failure->getCode() === FileException::BUSY;
            $goesOn = $failure->getCode() === FileException::NOT_TRUSTED
                ? 'nothing is removed' : 'nothing is lost, the next run tries again';
            $this->problem($failure->getMessage() . "; $goesOn");
            return $isBusy ? self::LATER : self::DISK;
        }
    }

    private function runLocked(): int
    {
        $log = $this->options->filename;
        // One uploader per log at a time. The lock file stays: who waits for a removed one would have a lock of its
        // own.
        $lock = Files::open("$log.lock", 'c', Files::checkOwn(...));
        if (!Files::lock($lock, 0.0)) {
            return self::LATER;
        }
        for ($turn = 0; $turn < 2; $turn++) { // what an earlier run left, then the log itself
            $isRest = Files::status("$log.uploading") !== null;
            $taken = TakenFile::take($log);
            if ($taken === null) {
                break;
            }
            $answer = $this->upload($taken);
            if ($answer !== null) {
                $later = $answer->isRetryable();
                $this->problem("$answer->code: $answer->reason (" . ($later ? 'the next run goes on'
                    : 'nothing is lost, but it will not get better by itself') . ')');
                return $later ? self::LATER : self::REFUSED;
            }
            if (!$isRest) {
                break;
            }
        }
        if ($this->setAside > 0) {
            $this->problem("lines that cannot be uploaded: $this->setAside; see $log.rejected");
            return self::SET_ASIDE;
        }
        return self::DONE;
    }

    /** Upload a file to its end; null when it is done, else the answer that stopped it. */
    private function upload(TakenFile $taken): ?Answer
    {
        $side = new SideFile("{$this->options->filename}.rejected", $taken->upload);
        do {
            $reader = new LineReader($taken->file, $taken->offset, $taken->upload);
            foreach ($reader->batches() as $batch) {
                $aside = $batch['aside'];
                $answer = $this->send($batch['events'], $aside);
                if ($answer !== null) {
                    return $answer;
                }
                $side->keep($aside);
                $this->acknowledged += count($batch['events']) + count($batch['aside']) - count($aside);
                $this->setAside += count($aside);
                if ($batch['end'] !== null) {
                    $taken->offset = $batch['end'];
                    $this->keepPlace($taken);
                }
            }
            $taken->offset = $reader->end;
        } while (!$taken->remove());
        return null;
    }

    /**
     * Send events until they are acknowledged; those that the service refuses are added to `aside`.
     *
     * @param list<Line> $events
     * @param list<Line> $aside
     */
    private function send(array $events, array &$aside): ?Answer
    {
        if ($events === []) {
            return null;
        }
        $answer = $this->sendRepeatedly($events);
        if ($answer->code === '') {
            foreach ($answer->rejected as [$index, $code, $reason]) {
                if (isset($events[$index])) {
                    $aside[] = ['reason' => $code, 'message' => $reason] + $events[$index];
                }
            }
            return null;
        }
        if (!$answer->isAboutContent()) {
            return $answer;
        }
        if (count($events) === 1) {
            $aside[] = ['reason' => $answer->code, 'message' => $answer->reason] + $events[0];
            return null;
        }
        $middle = intdiv(count($events), 2); // one line spoils the request for the others: it is looked for
        return $this->send(array_slice($events, 0, $middle), $aside)
            ?? $this->send(array_slice($events, $middle), $aside);
    }

    /** @param list<Line> $events */
    private function sendRepeatedly(array $events): Answer
    {
        $deadline = Timestamp::monotonic() + $this->retrySeconds;
        $pause = self::RETRY_FIRST_SECONDS;
        while (true) {
            $request = new BatchRequest($this->options, array_column($events, 'data'));
            $answer = $this->transport->send($request, $this->options->timeout_seconds);
            $wait = max($pause * random_int(0, 1000) / 1000, $answer->retryAfterSeconds ?? 0.0);
            if (!$answer->isRetryable() || Timestamp::monotonic() + $wait > $deadline) {
                return $answer;
            }
            usleep((int) ($wait * 1e6));
            $pause = min(2 * $pause, self::RETRY_MAX_SECONDS);
        }
    }

    private function keepPlace(TakenFile $taken): void
    {
        try {
            $taken->keepPlace();
        } catch (FileException $failure) {
            if ($failure->getCode() !== FileException::NO_ROOM) {
                throw $failure;
            }
            // It is the log that fills the disk: go on until it can be removed. A run that ends before repeats events,
            // which the service knows by their messageId.
            $this->problem('no room to write down how far it is (' . $failure->getMessage() . ')');
        }
    }

    private function problem(string $sentence): void
    {
        if (!in_array($sentence, $this->problems, true)) {
            $this->problems[] = $sentence;
        }
    }
}
