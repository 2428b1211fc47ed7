<?php

declare(strict_types=1);

namespace App;

use Hookline\Client;
use Symfony\Component\EventDispatcher\EventSubscriberInterface;
use Symfony\Component\HttpKernel\KernelEvents;

/** Sends what a request tracked when its response is out. */
final class FlushHookline implements EventSubscriberInterface
{
    private const FLUSH_SECONDS = 2.0;

    public function __construct(private readonly Client $hookline)
    {
    }

    public static function getSubscribedEvents(): array
    {
        return [KernelEvents::TERMINATE => 'flush'];
    }

    /** Flush after the response: Symfony has sent it when it terminates. */
    public function flush(): void
    {
        $this->hookline->flush(self::FLUSH_SECONDS);
    }
}
