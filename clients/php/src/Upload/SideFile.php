<?php

declare(strict_types=1);

namespace Hookline\Upload;

use Hookline\Files;

/**
 * Keeps the lines that cannot be uploaded, each with the reason, in a file beside the log until a person looks at it.
 *
 * One JSON object per line: `reason` (a code), `message`, `upload` and `offset`, and the line itself as `line`, or as
 * `base64` when it is not UTF-8. A line is kept once, however often its upload is begun anew.
 *
 * @phpstan-import-type Line from LineReader
 */
final class SideFile
{
    /** @var array<int, true>|null offsets that an earlier run kept; a run keeps a line once */
    private ?array $kept = null;

    public function __construct(private readonly string $path, private readonly string $upload)
    {
    }

    /**
     * Add lines unless this upload did before; on disk when it returns.
     *
     * @param list<Line> $lines
     */
    public function keep(array $lines): void
    {
        if ($lines === []) {
            return;
        }
        $this->kept ??= $this->readKept(min(array_column($lines, 'offset')));
        $fresh = '';
        foreach ($lines as $line) {
            if (!isset($this->kept[$line['offset']])) {
                $fresh .= $this->entry($line) . "\n";
            }
        }
        if ($fresh !== '') {
            $this->append($fresh);
        }
    }

    /** @param Line $line */
    private function entry(array $line): string
    {
        $isText = preg_match('//u', $line['data']) === 1;
        return json_encode([
            'reason' => $line['reason'],
            'message' => $line['message'],
            'upload' => $this->upload,
            'offset' => $line['offset'],
        ] + ($isText ? ['line' => $line['data']] : ['base64' => base64_encode($line['data'])]), JSON_THROW_ON_ERROR
            | JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES | JSON_INVALID_UTF8_SUBSTITUTE);
    }

    private function append(string $data): void
    {
        $file = Files::open($this->path, 'a+', Files::checkOwn(...));
        $size = (fstat($file) ?: Files::fail($this->path))['size'];
        if ($size > 0 && fseek($file, -1, SEEK_END) === 0 && fread($file, 1) !== "\n") {
            $data = "\n$data"; // a run that was killed left half an entry
        }
        if (fwrite($file, $data) !== strlen($data) || !fsync($file)) {
            ftruncate($file, $size);
            Files::fail($this->path);
        }
        if ($size === 0) {
            Files::syncFolder($this->path);
        }
    }

    /** @return array<int, true> those from this offset on: before it the upload is done */
    private function readKept(int $from): array
    {
        $kept = [];
        if (Files::status($this->path) === null) {
            return $kept;
        }
        $file = Files::open($this->path, 'r', Files::checkOwn(...));
        while (($text = fgets($file)) !== false) {
            $entry = json_decode($text, true);
            $isOurs = is_array($entry) && ($entry['upload'] ?? null) === $this->upload;
            if ($isOurs && is_int($entry['offset'] ?? null) && $entry['offset'] >= $from) {
                $kept[$entry['offset']] = true;
            }
        }
        return $kept;
    }
}
