<?php

declare(strict_types=1);

namespace App\Providers;

use Hookline\Client;
use Illuminate\Contracts\Foundation\Application;
use Illuminate\Support\ServiceProvider;

/** Gives `Hookline\Client` to controllers, jobs and commands, and sends what they tracked when the response is out. */
final class HooklineServiceProvider extends ServiceProvider
{
    private const FLUSH_SECONDS = 2.0;

    /** Make the client when somebody asks for it. */
    public function register(): void
    {
        $this->app->singleton(Client::class, static fn (Application $app): Client => new Client(
            $app->make('config')->get('hookline.write_key'),
            $app->make('config')->get('hookline.options') + ['logger' => $app->make('log')],
        ));
    }

    /** Flush after the response: Laravel has sent it when it terminates. */
    public function boot(): void
    {
        $this->app->terminating(static function (Application $app): void {
            if ($app->resolved(Client::class)) { // a request without events has no client
                $app->make(Client::class)->flush(self::FLUSH_SECONDS);
            }
        });
    }
}
