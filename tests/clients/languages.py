"""Which client libraries can be tested here. Go and PHP are not everywhere; the test run says which one is missing."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache

from tests.clients.go.toolchain import go_program

PHP_PROGRAMS = ("php", "phpunit", "phpcs")
PHP_FRAMEWORKS = {"Laravel": "Illuminate/autoload.php", "Symfony": "Symfony/Bundle/FrameworkBundle/autoload.php"}
"""What the PHP library's examples are made with, and the file that loads it."""


@cache
def left_out() -> dict[str, str]:
    """Return the folders of the libraries that cannot be tested here, each with what is missing. They are no skipped
    tests: the head of the run names them."""
    folders = {}
    if go_program() is None:
        folders["tests/clients/go"] = "no Go from 1.22 on: sh scripts/go.sh"
    if missing := _missing_of_php():
        folders["tests/clients/php"] = f"no {', '.join(missing)}: sh scripts/test-needs.sh"
    return folders


def _missing_of_php() -> list[str]:
    if missing := [program for program in PHP_PROGRAMS if shutil.which(program) is None]:
        return missing
    return [name for name, loader in PHP_FRAMEWORKS.items() if not _has_php_file(loader)]


def _has_php_file(name: str) -> bool:
    program = "exit(stream_resolve_include_path($argv[1]) === false ? 1 : 0);"
    return subprocess.run(["php", "-r", program, name], check=False).returncode == 0
