<?php

declare(strict_types=1);

use App\FlushHookline;
use Hookline\Client;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;

use function Symfony\Component\DependencyInjection\Loader\Configurator\env;
use function Symfony\Component\DependencyInjection\Loader\Configurator\service;

return static function (ContainerConfigurator $container): void {
    $container->parameters()
        ->set('env(HOOKLINE_ENDPOINT)', 'http://127.0.0.1:8080')
        ->set('env(HOOKLINE_CONSUMER)', 'lib_curl');
    $services = $container->services()->defaults()->autowire()->autoconfigure();
    $services->set(Client::class)->args([
        env('HOOKLINE_WRITE_KEY'),
        [
            'endpoint' => env('HOOKLINE_ENDPOINT'),
            'consumer' => env('HOOKLINE_CONSUMER'),
            'logger' => service('logger'),
        ],
    ]);
    $services->set(FlushHookline::class)->args([service(Client::class)]);
};
