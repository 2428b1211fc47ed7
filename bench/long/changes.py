"""Which commits changed what runs: a docstring, a comment or a line break makes no measurement old."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path


def changes(root: Path, paths: Sequence[str], since: str | None = None) -> Iterator[str]:
    """Yield the commits that changed the code at these paths, newest first; of those after ``since``, if given.

    ``paths`` are what git is given, behind ``--``.
    """
    form = ("--format=%H", "--raw", "--no-renames", "--no-abbrev", "-m", "--first-parent")
    commit, is_yielded = "", False
    for line in git(root, "log", *form, f"{since}..HEAD" if since else "HEAD", *paths).splitlines():
        if line and not line.startswith(":"):
            commit, is_yielded = line, False
        elif line and not is_yielded and _changes_code(root, line):
            is_yielded = True
            yield commit


def git(root: Path, *words: str) -> str:
    """Run git in the repository; return what it prints."""
    return subprocess.run(["git", *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def _changes_code(root: Path, line: str) -> bool:
    """Read a line of ``git log --raw``: modes, blobs and status, then the path."""
    said, _, path = line.partition("\t")
    _, _, before, after, status = said.split()
    if status != "M" or not path.endswith(".py"):
        return True
    return what_runs(path, git(root, "cat-file", "blob", before)) != what_runs(
        path, git(root, "cat-file", "blob", after)
    )


def what_runs(name: str, text: str) -> str:
    """Return what of a file runs, in a form that can be compared: of a Python module, what is no docstring, no comment
    and no line break."""
    if not name.endswith(".py"):
        return text
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return text
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [each for each in node.body if not _is_text(each)]
    return ast.unparse(tree)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
