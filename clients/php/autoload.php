<?php

declare(strict_types=1);

// Loads the classes of the library without Composer: `require '.../autoload.php';`.
spl_autoload_register(static function (string $class): void {
    if (str_starts_with($class, 'Hookline\\')) {
        $file = __DIR__ . '/src/' . strtr(substr($class, 9), '\\', '/') . '.php';
        if (is_file($file)) {
            require $file;
        }
    }
});
