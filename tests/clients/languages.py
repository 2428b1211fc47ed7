"""Which client libraries can be tested here. Go and PHP are not everywhere; the test run says which one is missing."""

from __future__ import annotations

import shutil
from functools import cache

from tests.clients.go.toolchain import go_program

PHP_PROGRAMS = ("php", "phpunit", "phpcs")


@cache
def left_out() -> dict[str, str]:
    """Return the folders of the libraries that cannot be tested here, each with what is missing. They are no skipped
    tests: the head of the run names them."""
    folders = {}
    if go_program() is None:
        folders["tests/clients/go"] = "no Go from 1.22 on: sh scripts/go.sh"
    if missing := [program for program in PHP_PROGRAMS if shutil.which(program) is None]:
        folders["tests/clients/php"] = f"no {', '.join(missing)}: sh scripts/test-needs.sh"
    return folders
