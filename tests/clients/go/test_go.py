"""The Go client library by Go's own measures: format, vet, tests with the race detector, no dependency."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.clients.go.toolchain import LIBRARY, run

OTHER_SYSTEMS = ("windows", "darwin")
README_PROGRAM = """package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	hookline "github.com/hookline/hookline-go"
)

var client = hookline.New("")
var server http.Server
var _, _ http.Handler = pages(client)(nil), chi(pages(client))

func visitor(*http.Request) string { return "a1" }

func chi(use func(http.Handler) http.Handler) http.Handler { return use(nil) }

func main() {}

"""
"""Stands around the blocks of the README: they name a client, a server, and a function of the reader's own."""


def test_it_is_formatted() -> None:
    """gofmt has nothing to change."""
    result = run("gofmt", "-l", ".")
    assert (result.returncode, result.stdout) == (0, "")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_its_own_tests_pass_with_the_race_detector() -> None:
    """go vet and go test -race; the first time they compile the standard library."""
    for command in (("vet", "./..."), ("test", "-race", "-timeout", "800s", "./...")):
        result = run("go", *command)
        assert result.returncode == 0, result.stdout[-8000:]


@pytest.fixture(scope="module")
def type_check(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The program that checks types for another system."""
    program = str(tmp_path_factory.mktemp("types") / "type_check")
    built = run("go", "build", "-o", program, str(Path(__file__).with_name("type_check") / "main.go"))
    assert built.returncode == 0, built.stdout
    return program


@pytest.mark.slow
@pytest.mark.parametrize("system", OTHER_SYSTEMS)
def test_it_is_right_for_other_systems(system: str, type_check: str) -> None:
    """Locks and owners of files are the system's; without them there is no spool, but a library."""
    result = run(type_check, GOOS=system, CGO_ENABLED="0")
    assert result.returncode == 0, result.stdout


def test_it_has_no_dependency() -> None:
    """go.mod names the oldest Go and nothing else."""
    assert (LIBRARY / "go.mod").read_text().split()[2:] == ["go", "1.22"]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_code_of_the_readme_compiles(tmp_path: Path) -> None:
    """Whoever pastes a block has a program; those that are no functions stand in one."""
    blocks = re.findall(r"```go\n(.*?)```", (LIBRARY / "README.md").read_text(), re.DOTALL)
    functions = [block for block in blocks if block.startswith("func ")]
    statements = [block for block in blocks if not block.startswith(("func ", "import "))]
    wrapped = [
        f"func _() {{\n{block}_ = client\n}}\n".replace("client, err :=", "client, _ :=") for block in statements
    ]
    (tmp_path / "main.go").write_text(README_PROGRAM + "\n".join(functions + wrapped))
    required = f"require github.com/hookline/hookline-go v0.0.0\nreplace github.com/hookline/hookline-go => {LIBRARY}\n"
    (tmp_path / "go.mod").write_text(f"module example.com/shop\ngo 1.22\n{required}")
    result = run("go", "build", "-C", str(tmp_path), "-o", str(tmp_path / "shop"), ".")
    assert result.returncode == 0, result.stdout
    assert len(functions) == 1
    assert len(statements) == 4


def test_the_readme_has_every_option_and_code() -> None:
    """Tables that nobody keeps by hand are soon wrong."""
    readme = (LIBRARY / "README.md").read_text()
    options = (LIBRARY / "options.go").read_text().partition("type Options struct {")[2].partition("\n}\n")[0]
    codes = (LIBRARY / "errors.go").read_text().partition("var codes = ")[2]
    names = re.findall(r"^\t(\w+) ", options, re.MULTILINE) + re.findall(r'^\t"(\w+)":', codes, re.MULTILINE)
    assert [name for name in names if f"| `{name}` |" not in readme] == []
