<?php

declare(strict_types=1);

use Hookline\Client;
use Illuminate\Http\JsonResponse;
use Illuminate\Http\Request;
use Illuminate\Support\Facades\Route;

Route::post('/orders', static function (Request $request, Client $hookline): JsonResponse {
    $hookline->track([
        'userId' => $request->input('user'),
        'event' => 'Order Completed',
        'properties' => ['total' => (float) $request->input('total')],
        'context' => ['ip' => $request->ip(), 'userAgent' => $request->userAgent()],
    ]);

    return new JsonResponse(['ordered' => true], 201);
});
