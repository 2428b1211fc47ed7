<?php

declare(strict_types=1);

// A Symfony application in one file: the client is a service, a controller tracks, and the events leave when the
// response has been sent. Run it with: php -S 127.0.0.1:8000 examples/symfony.php

use Hookline\Client;
use Symfony\Bundle\FrameworkBundle\FrameworkBundle;
use Symfony\Bundle\FrameworkBundle\Kernel\MicroKernelTrait;
use Symfony\Component\DependencyInjection\Loader\Configurator\ContainerConfigurator;
use Symfony\Component\EventDispatcher\EventSubscriberInterface;
use Symfony\Component\HttpFoundation\JsonResponse;
use Symfony\Component\HttpFoundation\Request;
use Symfony\Component\HttpKernel\Event\TerminateEvent;
use Symfony\Component\HttpKernel\Kernel;
use Symfony\Component\Routing\Loader\Configurator\RoutingConfigurator;

use function Symfony\Component\DependencyInjection\Loader\Configurator\service;

foreach ([getenv('COMPOSER_AUTOLOAD'), '/usr/share/php/Symfony/Bundle/FrameworkBundle/autoload.php'] as $autoload) {
    if ($autoload && is_file($autoload)) {
        require $autoload; // in your application: vendor/autoload.php, which brings both
        break;
    }
}
require __DIR__ . '/../autoload.php';

final class Orders
{
    public function __construct(private readonly Client $hookline)
    {
    }

    public function __invoke(Request $request): JsonResponse
    {
        $total = (float) $request->query->get('total', '0');
        $this->hookline->track([
            'userId' => 'u1',
            'event' => 'Order Completed',
            'properties' => ['total' => $total],
        ]);
        return new JsonResponse(['ordered' => $total]);
    }
}

/** Sends after the response: nobody waits for it where the server can finish a request early. */
final class SendsAfterTheResponse implements EventSubscriberInterface
{
    public function __construct(private readonly Client $hookline)
    {
    }

    public static function getSubscribedEvents(): array
    {
        return [TerminateEvent::class => 'send'];
    }

    public function send(): void
    {
        $this->hookline->flush();
    }
}

final class Application extends Kernel
{
    use MicroKernelTrait;

    public function registerBundles(): iterable
    {
        yield new FrameworkBundle();
    }

    public function getCacheDir(): string
    {
        return (getenv('APP_VAR') ?: __DIR__ . '/var') . '/cache';
    }

    public function getLogDir(): string
    {
        return (getenv('APP_VAR') ?: __DIR__ . '/var') . '/log';
    }

    protected function configureContainer(ContainerConfigurator $container): void
    {
        $container->extension('framework', ['secret' => 'example', 'http_method_override' => false]);
        $services = $container->services()->defaults()->autowire()->autoconfigure();
        $services->set(Client::class, Client::class)->args([
            '%env(HOOKLINE_WRITE_KEY)%',
            ['endpoint' => '%env(HOOKLINE_ENDPOINT)%', 'logger' => service('logger')],
        ]);
        $services->set(Orders::class, Orders::class)->public()->tag('controller.service_arguments');
        $services->set(SendsAfterTheResponse::class, SendsAfterTheResponse::class);
    }

    protected function configureRoutes(RoutingConfigurator $routes): void
    {
        $routes->add('order', '/order')->controller(Orders::class);
    }
}

$kernel = new Application('prod', false);
$request = Request::createFromGlobals();
$response = $kernel->handle($request);
$response->send();
$kernel->terminate($request, $response);
