"""Build what is published: wheels and sdists, the Go module as a proxy serves it, and the Composer archive.

Everything is built from a copy of the files that git knows or would take, so that nothing else of a checkout gets in,
and with the time of the last commit, so that the same commit gives the same bytes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from scripts.release import third_party
from scripts.release.versions import ROOT, version

GO_MODULE = "github.com/hookline/hookline-go"
COMPOSER_PACKAGE = "hookline/hookline-php"


def run(
    command: Sequence[object], folder: Path, more: Mapping[str, str] | None = None, given: str | None = None
) -> str:
    """Run a command to its end and return what it printed; RuntimeError with its words when it fails."""
    words, environment = [str(word) for word in command], {**os.environ, **(more or {})}
    done = subprocess.run(words, cwd=folder, env=environment, input=given, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout


def tool(name: str, *places: Path) -> Path:
    """Return a program of the machine, or of the folders that our scripts install into."""
    for found in (shutil.which(name), *(place / name for place in places)):
        if found and subprocess.run([found, "--version"], capture_output=True).returncode in (0, 2):
            return Path(found).resolve()
    raise RuntimeError(f"{name} is needed for this; install it and try again")


def uv() -> Path:
    """Return uv, as scripts/setup.sh finds it."""
    return tool("uv", ROOT / ".tools/bin")


def go() -> Path:
    """Return the Go that scripts/go.sh leaves usable."""
    return tool("go", ROOT / "build/go/bin")


def commit_time(root: Path = ROOT) -> int:
    """Return when the last commit was made."""
    return int(run(["git", "log", "-1", "--format=%ct"], root))


def copy_sources(target: Path, root: Path = ROOT) -> None:
    """Copy what git knows, and what it would take, into a folder."""
    for name in run(["git", "ls-files", "-co", "--exclude-standard", "-z"], root).split("\0"):
        if name and (root / name).is_file():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, target / name)


def build_python(sources: Path, out: Path) -> None:
    """Build wheel and sdist of service and client, each wheel from its sdist, with the locked backend alone."""
    lock = sources / "requirements-build.lock"
    for project in (sources, sources / "clients/python"):
        command = [uv(), "build", "--quiet", "--out-dir", out, "--build-constraints", lock, "--require-hashes", project]
        run(command, sources, {"SOURCE_DATE_EPOCH": str(commit_time()), "UV_PYTHON_DOWNLOADS": "never"})
    (out / ".gitignore").unlink(missing_ok=True)


def build_go(sources: Path, out: Path) -> None:
    """Have Go itself make the module of a tagged repository, in the layout of a proxy."""
    repository = _repository(sources / "clients/go", sources.parent / "go")
    environment = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{repository}.insteadOf",
        "GIT_CONFIG_VALUE_0": f"https://{GO_MODULE}",
        **go_environment(sources.parent),
        "GOPROXY": "direct",
    }
    (sources.parent / "asks").mkdir()
    (sources.parent / "asks/go.mod").write_text("module asks\n")
    run([go(), "mod", "download", f"{GO_MODULE}@v{version()}"], sources.parent / "asks", environment)
    served = Path(GO_MODULE) / "@v"
    (out / "go" / served).mkdir(parents=True)
    cached = sources.parent / "modules/cache/download" / served
    for kind in ("mod", "zip"):
        shutil.copy(cached / f"v{version()}.{kind}", out / "go" / served)
    # As in the cache, but without where it came from: that is a folder of this machine.
    moment = run(
        ["git", "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%dT%H:%M:%SZ"], repository, {"TZ": "UTC"}
    )
    (out / "go" / served / f"v{version()}.info").write_text(f'{{"Version":"v{version()}","Time":"{moment.strip()}"}}')
    (out / "go" / served / "list").write_text(f"v{version()}\n")
    run([go(), "clean", "-modcache"], sources.parent / "asks", environment)


def go_environment(folder: Path) -> dict[str, str]:
    """Return what makes Go look at nothing but what it is given, with its modules in ``folder``."""
    return {
        "GOFLAGS": "",
        "GOENV": "off",
        "GOWORK": "off",
        "GOTOOLCHAIN": "local",
        "GOSUMDB": "off",
        "GOMODCACHE": str(folder / "modules"),
    }


def build_php(sources: Path, out: Path) -> None:
    """Archive the library as a host of its repository does, by its ``export-ignore``."""
    repository = _repository(sources / "clients/php", sources.parent / "php")
    name = f"{COMPOSER_PACKAGE.partition('/')[2]}-{version()}"
    target = out / f"{name}.zip"
    run(["git", "archive", f"--prefix={name}/", f"--output={target}", "HEAD"], repository, {"TZ": "UTC"})


def _repository(folder: Path, target: Path) -> Path:
    """Make a repository of a folder, with a tag: what a library's own repository would be."""
    shutil.copytree(folder, target)
    moment = f"{commit_time()} +0000"
    author = {"NAME": "Hookline", "EMAIL": "release@hookline.invalid", "DATE": moment}
    environment = {f"GIT_{who}_{key}": value for who in ("AUTHOR", "COMMITTER") for key, value in author.items()}
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", version()], ["tag", f"v{version()}"]):
        run(["git", "-c", "core.autocrlf=false", *words], target, environment)
    return target


ALL: tuple[Callable[[Path, Path], None], ...] = (build_python, build_go, build_php)


def build(out: Path, builders: Sequence[Callable[[Path, Path], None]] = ALL) -> dict[str, str]:
    """Build into ``out`` from a fresh copy; return the sum of every file."""
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        sources = Path(name) / "sources"
        copy_sources(sources)
        for builder in builders:
            builder(sources, out)
    return sums(out)


def write_bill(out: Path) -> None:
    """Write the bill of materials of the service's wheel beside it, in an environment of its own."""
    (wheel,) = out.glob("hookline-*.whl")
    target = out / f"{wheel.name.removesuffix('.whl')}.cdx.json"
    with tempfile.TemporaryDirectory() as name:
        python = Path(name) / "environment/bin/python"
        more = {"UV_PYTHON_DOWNLOADS": "never", "UV_LINK_MODE": "copy"}
        run([uv(), "venv", "--quiet", "--python", ROOT / ".venv/bin/python", python.parent.parent], ROOT, more)
        lock = ROOT / "scripts/release/requirements.lock"
        run([uv(), "pip", "install", "--quiet", "--python", python, "--require-hashes", "-r", lock], ROOT, more)
        command = [python, "-m", "scripts.release.bill", wheel.resolve(), str(commit_time()), target.resolve()]
        run(command, ROOT, {"PYTHONPATH": str(ROOT)}, third_party.as_json())


def sums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file in a folder, by its path in it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def build_twice(out: Path, builders: Sequence[Callable[[Path, Path], None]] = ALL) -> list[str]:
    """Build into ``out`` and once more elsewhere, in another time zone and with other rights; return what differs."""
    first = build(out, builders)
    zone, mask = os.environ.get("TZ"), os.umask(0o077)
    os.environ["TZ"] = "Pacific/Chatham"
    try:
        with tempfile.TemporaryDirectory() as again:
            second = build(Path(again), builders)
    finally:
        os.umask(mask)
        os.environ.pop("TZ")
        if zone is not None:
            os.environ["TZ"] = zone
    return sorted(name for name in first.keys() | second.keys() if first.get(name) != second.get(name))
