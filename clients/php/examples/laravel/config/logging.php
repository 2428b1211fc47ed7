<?php

declare(strict_types=1);

return [
    'default' => 'php',
    'channels' => [
        'php' => ['driver' => 'errorlog', 'level' => 'warning'],
    ],
];
