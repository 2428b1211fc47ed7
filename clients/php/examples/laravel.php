<?php

declare(strict_types=1);

// A Laravel application in one file: a service provider makes the client, a route tracks, and the events leave when the
// response has been sent. Run it with: php -S 127.0.0.1:8000 examples/laravel.php

use Hookline\Client;
use Illuminate\Contracts\Debug\ExceptionHandler;
use Illuminate\Contracts\Http\Kernel as KernelContract;
use Illuminate\Foundation\Application;
use Illuminate\Foundation\Exceptions\Handler;
use Illuminate\Foundation\Http\Kernel;
use Illuminate\Http\Request;
use Illuminate\Support\ServiceProvider;

error_reporting(E_ALL & ~E_DEPRECATED);
foreach ([getenv('COMPOSER_AUTOLOAD'), '/usr/share/php/Illuminate/autoload.php'] as $autoload) {
    if ($autoload && is_file($autoload)) {
        require $autoload; // in your application: vendor/autoload.php, which brings both
        break;
    }
}
require __DIR__ . '/../autoload.php';

final class HooklineServiceProvider extends ServiceProvider
{
    public function register(): void
    {
        $this->app->singleton(Client::class, static fn () => new Client(
            (string) getenv('HOOKLINE_WRITE_KEY'),
            ['endpoint' => (string) getenv('HOOKLINE_ENDPOINT')],
        ));
    }

    public function boot(): void
    {
        // After the response: nobody waits for it where the server can finish a request early.
        $this->app->terminating(fn () => $this->app->make(Client::class)->flush());
    }
}

$base = (getenv('APP_VAR') ?: __DIR__ . '/var') . '/laravel';
foreach (['bootstrap/cache', 'config'] as $folder) {
    is_dir("$base/$folder") || mkdir("$base/$folder", 0700, true);
}
file_put_contents("$base/config/app.php", '<?php return ' . var_export([
    'name' => 'example',
    'env' => 'production',
    'timezone' => 'UTC',
    'providers' => [HooklineServiceProvider::class],
], true) . ';');

$app = new Application($base);
$app->singleton(KernelContract::class, Kernel::class);
$app->singleton(ExceptionHandler::class, Handler::class);
$app->make('router')->get('/order', static function (Request $request, Client $hookline): array {
    $total = (float) $request->query('total', '0');
    $hookline->track(['userId' => 'u1', 'event' => 'Order Completed', 'properties' => ['total' => $total]]);
    return ['ordered' => $total];
});

$kernel = $app->make(KernelContract::class);
$request = Request::capture();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
