<?php

declare(strict_types=1);

return [
    'name' => 'Shop',
    'env' => 'production',
    'debug' => false,
    'timezone' => 'UTC',
    'providers' => [
        App\Providers\HooklineServiceProvider::class,
    ],
];
