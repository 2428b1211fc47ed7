<?php

declare(strict_types=1);

namespace Hookline;

/**
 * The messages that wait in memory, first in, first out, bounded in number and bytes.
 *
 * @phpstan-import-type Queued from Ledger
 */
final class Queue implements \Countable
{
    /** @var \SplDoublyLinkedList<Queued> */
    private \SplDoublyLinkedList $messages;
    private int $bytes = 0;

    public function __construct(private readonly int $sizeMax, private readonly int $bytesMax)
    {
        $this->messages = new \SplDoublyLinkedList();
    }

    public function count(): int
    {
        return count($this->messages);
    }

    /** Whether one more may wait. A message always has room in an empty queue. */
    public function hasRoom(string $body): bool
    {
        $waiting = count($this->messages);
        return $waiting === 0 || ($waiting < $this->sizeMax && $this->bytes + strlen($body) <= $this->bytesMax);
    }

    public function append(string $messageId, string $body): void
    {
        $this->messages->push([$messageId, $body]);
        $this->bytes += strlen($body);
    }

    /** Remove the first message. */
    public function dropOldest(): void
    {
        $this->bytes -= strlen($this->messages->shift()[1]);
    }

    /**
     * Remove what fits one request, from the head.
     *
     * @return list<Queued>
     */
    public function take(int $eventsMax): array
    {
        $taken = [];
        $room = BatchRequest::ROOM_BYTES;
        while (count($taken) < $eventsMax && count($this->messages) > 0) {
            $size = strlen($this->messages->bottom()[1]);
            $room -= $size + 1;
            if ($room < 0) {
                break;
            }
            $this->bytes -= $size;
            $taken[] = $this->messages->shift();
        }
        return $taken;
    }

    /**
     * Return what was taken to the head.
     *
     * @param list<Queued> $messages
     */
    public function putBack(array $messages): void
    {
        foreach (array_reverse($messages) as $message) {
            $this->messages->unshift($message);
            $this->bytes += strlen($message[1]);
        }
    }

    /** Remove all; return how many there were. */
    public function clear(): int
    {
        $left = count($this->messages);
        $this->messages = new \SplDoublyLinkedList();
        $this->bytes = 0;
        return $left;
    }
}
