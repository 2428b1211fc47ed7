<?php

declare(strict_types=1);

namespace Hookline\Tests;

use Hookline\HooklineException;
use Hookline\Options;
use PHPUnit\Framework\TestCase;

/** The README has every option with its default, and every code with its sentence. */
final class ReadmeTest extends TestCase
{
    public function testEveryOptionIsThereWithItsDefault(): void
    {
        $options = Options::resolve(null, []);
        $shown = self::table('## Options');
        self::assertEqualsCanonicalizing(Options::names(), array_keys($shown));
        foreach ($shown as $name => [$default]) {
            $value = $options->$name;
            $written = match (true) {
                $value === null || $value === '' => 'none',
                is_string($value) => "`$value`",
                is_float($value) => '`' . sprintf('%.1F', $value) . '`',
                default => '`' . json_encode($value) . '`',
            };
            self::assertSame($written, $default, $name);
        }
    }

    public function testEveryCodeIsThereWithItsSentence(): void
    {
        $shown = array_map(static fn (array $cells): string => $cells[0], self::table('## Codes'));
        self::assertSame(HooklineException::SENTENCES, $shown);
    }

    /** @return array<string, list<string>> the cells behind the first one, by what stands in that */
    private static function table(string $heading): array
    {
        $readme = (string) file_get_contents(__DIR__ . '/../README.md');
        $section = explode("\n## ", explode("\n$heading\n", $readme)[1])[0];
        preg_match_all('/^\| `(\w+)` \| (.*) \|$/m', $section, $found, PREG_SET_ORDER);
        $rows = [];
        foreach ($found as [, $name, $cells]) {
            $rows[$name] = explode(' | ', $cells);
        }
        return $rows;
    }
}
