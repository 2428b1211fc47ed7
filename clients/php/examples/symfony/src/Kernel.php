<?php

declare(strict_types=1);

namespace App;

use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\HttpKernel\Kernel as HttpKernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

/** The smallest application: the framework, the services of Hookline, one route. */
final class Kernel extends HttpKernel
{
    use MicroKernelTrait;

    /** @return iterable<FrameworkBundle> */
    public function registerBundles(): iterable
    {
        yield new FrameworkBundle();
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', ['secret' => '%env(APP_SECRET)%', 'router' => ['utf8' => true]]);
        $container->import('../config/hookline.php');
        $container->services()->set(Orders::class)->autowire()->tag('controller.service_arguments');
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('orders', '/orders')->controller(Orders::class)->methods(['POST']);
    }
}
