"""What can be tested here. Go, PHP and what is built with Go are not everywhere; the test run says what is missing."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from tests.clients.go.toolchain import go_program

S3_SERVER = Path(__file__).parents[2] / "build" / "s3" / "versitygw"
PHP_PROGRAMS = ("php", "phpunit", "phpcs")
PHP_FRAMEWORKS = {"laravel": "Illuminate/autoload.php", "symfony": "Symfony/Bundle/FrameworkBundle/autoload.php"}
"""What the examples of the PHP library are made with, and the file that loads it, in PHP's include path."""


@cache
def php_frameworks() -> list[str]:
    """Return the frameworks that are here."""
    if shutil.which("php") is None:
        return []
    program = "exit(stream_resolve_include_path($argv[1]) === false ? 1 : 0);"
    found = {
        name: subprocess.run(["php", "-r", program, loader], check=False).returncode == 0
        for name, loader in PHP_FRAMEWORKS.items()
    }
    return [name for name in found if found[name]]


@cache
def left_out() -> dict[str, str]:
    """Return the folders of what cannot be tested here, each with what is missing. They are no skipped
    tests: the head of the run names them."""
    folders = {}
    if go_program() is None:
        folders["tests/clients/go"] = "no Go from 1.22 on: sh scripts/go.sh"
    if missing := [program for program in PHP_PROGRAMS if shutil.which(program) is None]:
        folders["tests/clients/php"] = f"no {', '.join(missing)}: sh scripts/test-needs.sh"
    elif absent := sorted(PHP_FRAMEWORKS.keys() - php_frameworks()):
        folders["clients/php/examples"] = f"no {', '.join(absent)}: sh scripts/test-needs.sh"
    if not S3_SERVER.is_file():
        folders["tests/service/files/s3"] = "no S3-compatible server: sh scripts/s3-server.sh"
    return folders
