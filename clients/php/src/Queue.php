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

    /**
     * Return what fits one request, from the head, where it stays until `remove`: the program may end at any time.
     *
     * @return list<Queued>
     */
    public function first(int $eventsMax): array
    {
        $found = [];
        $room = BatchRequest::ROOM_BYTES;
        foreach ($this->messages as $message) {
            $room -= strlen($message[1]) + 1;
            if ($room < 0 || count($found) === $eventsMax) {
                break;
            }
            $found[] = $message;
        }
        return $found;
    }

    /** Remove so many from the head, if they are there: a handler may have ended the client meanwhile. */
    public function remove(int $count): void
    {
        while ($count-- > 0 && count($this->messages) > 0) {
            $this->bytes -= strlen($this->messages->shift()[1]);
        }
    }

    /**
     * Return what was removed to the head.
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
