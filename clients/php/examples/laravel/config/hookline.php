<?php

declare(strict_types=1);

return [
    'write_key' => env('HOOKLINE_WRITE_KEY'),
    'options' => [
        'endpoint' => env('HOOKLINE_ENDPOINT', 'http://127.0.0.1:8080'),
        'consumer' => env('HOOKLINE_CONSUMER', 'lib_curl'),
    ],
];
