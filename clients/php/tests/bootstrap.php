<?php

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

spl_autoload_register(static function (string $class): void {
    $file = __DIR__ . '/' . strtr(substr($class, strlen('Hookline\\Tests\\')), '\\', '/') . '.php';
    if (str_starts_with($class, 'Hookline\\Tests\\') && is_file($file)) {
        require $file;
    }
});
