<?php

declare(strict_types=1);

namespace Hookline\Upload;

use Hookline\BatchRequest;
use Hookline\Files;
use Hookline\Message;

/**
 * Reads a log file in bounded memory and groups its lines into batches: events, and lines that cannot be one.
 *
 * @phpstan-type Line array{offset: int, data: string, reason: string, message: string}
 * @phpstan-type Batch array{events: list<Line>, aside: list<Line>, end: int|null}
 */
final class LineReader
{
    /** Also the longest piece of a line that is kept in one entry of the side file. */
    private const READ_BYTES = 1024 * 1024;
    /** Lines to set aside are not collected beyond this: a file of anything else is gone through in bounded memory. */
    private const ASIDE_BYTES_MAX = 1024 * 1024;
    /** A line takes some hundred bytes beside its own. */
    private const ASIDE_LINES_MAX = 10_000;
    /** The escape of half of a surrogate pair, and an even number of backslashes before it. */
    private const SURROGATE = '/(?<!\\\\)((?:\\\\\\\\)*+)\\\\u[dD][89a-fA-F][0-9a-fA-F]{2}/';

    /** Where the next line begins, behind everything read so far. */
    public int $end;
    private bool $isInside = false; // a line that is given out in pieces

    /**
     * @param resource $file
     * @param string $upload an event without messageId gets one that a repeat of this upload repeats
     */
    public function __construct(private readonly mixed $file, int $offset, private readonly string $upload)
    {
        $this->end = $offset;
    }

    /**
     * Yield batches within the limits of the service until the file ends. `end` is where the upload goes on behind the
     * batch; null while the end of a long line is not reached.
     *
     * @return \Generator<int, Batch>
     */
    public function batches(): \Generator
    {
        $none = ['events' => [], 'aside' => [], 'end' => null];
        $batch = $none;
        $eventBytes = $asideBytes = 0;
        foreach ($this->lines() as [$line, $end]) {
            $bytes = strlen($line['data']) + 1;
            $isEvent = $line['reason'] === '';
            $isFull = $eventBytes + $bytes > BatchRequest::ROOM_BYTES
                || count($batch['events']) === BatchRequest::EVENTS_MAX;
            $isAsideFull = $asideBytes > self::ASIDE_BYTES_MAX || count($batch['aside']) === self::ASIDE_LINES_MAX;
            if (($isFull && $isEvent) || $isAsideFull) {
                yield $batch;
                $batch = $none;
                $eventBytes = $asideBytes = 0;
            }
            $batch[$isEvent ? 'events' : 'aside'][] = $line;
            $eventBytes += $isEvent ? $bytes : 0;
            $asideBytes += $isEvent ? 0 : $bytes;
            $batch['end'] = $end;
        }
        if ($batch !== $none) {
            yield $batch;
        }
    }

    /** @return \Generator<int, array{Line, int|null}> each line with where the next begins */
    private function lines(): \Generator
    {
        $rest = '';
        while (($chunk = $this->read($this->end + strlen($rest))) !== '') {
            $whole = explode("\n", $rest . $chunk);
            $rest = array_pop($whole);
            foreach ($whole as $data) {
                yield from $this->line($data, 1);
            }
            if (strlen($rest) >= self::READ_BYTES) {
                yield [$this->tooLong($rest, 0), null];
                $this->isInside = true;
                $rest = '';
            }
        }
        if ($rest !== '') { // its writer was killed in the middle of it, or just before the line end
            yield from $this->line($rest, 0);
        }
    }

    /** @return \Generator<int, array{Line, int}> */
    private function line(string $data, int $lineEnd): \Generator
    {
        $wasInside = $this->isInside;
        $this->isInside = false;
        if ($wasInside || strlen($data) > Message::BYTES_MAX) {
            yield [$this->tooLong($data, $lineEnd), $this->end];
        } elseif (trim($data) === '') {
            $this->end += strlen($data) + $lineEnd;
        } else {
            $offset = $this->end;
            $this->end += strlen($data) + $lineEnd;
            yield [$this->parsed($data, $offset), $this->end];
        }
    }

    /** @return Line */
    private function parsed(string $data, int $offset): array
    {
        $line = ['offset' => $offset, 'data' => $data, 'reason' => '', 'message' => ''];
        $event = json_decode($data, true); // no object, whose names may not begin with a zero byte
        if (json_last_error() === JSON_ERROR_UTF16) {
            // Half of a pair, as of an emoji that was cut: PHP alone refuses it, so for PHP there is none.
            $event = json_decode((string) preg_replace(self::SURROGATE, '$1?', $data), true);
        }
        if (json_last_error() !== JSON_ERROR_NONE) {
            $reason = json_last_error() === JSON_ERROR_UTF8 ? 'invalid_utf8' : 'invalid_json';
            return ['reason' => $reason, 'message' => json_last_error_msg()] + $line;
        }
        if (trim($data)[0] !== '{') {
            return ['reason' => 'invalid_item', 'message' => 'An event must be a JSON object.'] + $line;
        }
        $line['data'] = trim($data);
        $id = $event['messageId'] ?? null;
        if (!is_string($id) || $id === '') {
            $comma = $event === [] ? '' : ',';
            $line['data'] = substr($line['data'], 0, -1) . "$comma\"messageId\":\"$this->upload-$offset\"}";
        }
        return $line;
    }

    /** @return Line */
    private function tooLong(string $data, int $lineEnd): array
    {
        $offset = $this->end;
        $this->end += strlen($data) + $lineEnd;
        $message = 'An event may have at most ' . number_format(Message::BYTES_MAX) . ' bytes.';
        return ['offset' => $offset, 'data' => $data, 'reason' => 'event_too_large', 'message' => $message];
    }

    private function read(int $offset): string
    {
        fseek($this->file, $offset);
        $read = fread($this->file, self::READ_BYTES);
        return $read === false ? Files::fail('the taken file cannot be read') : $read;
    }
}
