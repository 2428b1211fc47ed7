<?php

declare(strict_types=1);

namespace App;

use Hookline\Client;
use Symfony\Component\HttpFoundation\JsonResponse;
use Symfony\Component\HttpFoundation\Request;

/** The controller of one route. */
final class Orders
{
    public function __construct(private readonly Client $hookline)
    {
    }

    /** Take an order and track it. */
    public function __invoke(Request $request): JsonResponse
    {
        $order = $request->toArray();
        $this->hookline->track([
            'userId' => $order['user'],
            'event' => 'Order Completed',
            'properties' => ['total' => (float) $order['total']],
            'context' => ['ip' => $request->getClientIp(), 'userAgent' => $request->headers->get('User-Agent')],
        ]);

        return new JsonResponse(['ordered' => true], 201);
    }
}
