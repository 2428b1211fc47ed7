"""deploy/container without an engine: what it copies, as whom it runs, and what it starts."""

from __future__ import annotations

import fnmatch
import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from hookline.cli.service.options import SUMMARIES
from hookline.settings import load
from tests.deploy.container import CONTAINERFILE, instructions
from tests.deploy.files import ROOT


def copied() -> list[str]:
    """What is copied from the repository, stages aside."""
    words = [[word for word in line.split() if not word.startswith("--chown")] for line in instructions("COPY")]
    return [source for line in words if not line[0].startswith("--from=") for source in line[:-1]]


def test_what_is_copied_exists_and_reaches_the_engine() -> None:
    """Every source is in the repository, and .dockerignore lets it through."""
    let_through = [line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")]
    assert copied()
    for source in copied():
        assert (ROOT / source).exists(), source
        assert any(source == each or source.startswith(f"{each}/") for each in let_through), source


def test_what_is_not_copied_does_not_reach_the_engine() -> None:
    """.dockerignore keeps data folders, settings and everything else away: it begins by leaving out all."""
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert lines[0] == "*"
    let_through = [line[1:] for line in lines if line.startswith("!")]
    assert not [each for each in ("hookline-data", "hookline.yaml", ".git") if fnmatch.filter(let_through, f"{each}*")]


def test_the_package_has_what_it_is_built_from() -> None:
    """The files that pyproject.toml wants in the package are among those copied."""
    project = (ROOT / "pyproject.toml").read_text()
    assert {"pyproject.toml", "README.md", "LICENSE", "docs/reference", "src"} <= set(copied())
    assert set(re.findall(r'^"(docs/[^"]+)" = ', project, re.MULTILINE)) == {
        source for source in copied() if source.startswith("docs/")
    }


def test_it_runs_as_nobody_in_particular() -> None:
    """The last stage ends as a user that is not root, who owns /data and nothing else."""
    (user,) = instructions("USER", stage=-1)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    owners = [line for line in instructions("COPY", stage=-1) if "--chown" in line]
    assert [line.split()[-1] for line in owners] == ["/data"]
    assert f"--chown={user}" in owners[0]


def test_stages_have_one_python_that_hookline_takes() -> None:
    """The interpreter that installs is the one that runs, of a version that the package allows."""
    images = {line.split()[0] for line in instructions("FROM")}
    assert images == {"${PYTHON_IMAGE}"}
    (default,) = instructions("ARG")
    version = re.fullmatch(r"PYTHON_IMAGE=python:(\d+)\.(\d+)-slim-\w+", default)
    assert version
    assert (int(version[1]), int(version[2])) >= (3, 11)


def test_commands_are_lists_and_the_last_is_a_command_of_hookline() -> None:
    """No shell is needed; the settings of the image are good ones."""
    commands = [*instructions("RUN"), *instructions("CMD"), instructions("HEALTHCHECK")[0].partition("CMD ")[2]]
    for command in commands:
        assert all(isinstance(word, str) for word in json.loads(command)), command
    name, verb = json.loads(instructions("CMD", stage=-1)[-1])
    assert name == "hookline"
    assert verb in SUMMARIES
    environment = dict(re.findall(r"(HOOKLINE_\w+)=(\S+)", "\n".join(instructions("ENV", stage=-1))))
    settings, _origins = load(Path(os.devnull), environment=environment)
    assert settings.data_dir == "/data"
    assert json.loads(instructions("VOLUME", stage=-1)[0]) == ["/data"]
    assert instructions("STOPSIGNAL", stage=-1) == ["SIGTERM"]


def test_its_lock_is_the_service_with_every_extra() -> None:
    """The image has what the service is locked to, to the hash, and beside it what writes files and the client
    libraries of Kafka, PostgreSQL and OpenTelemetry, with what these need."""
    pinned = re.compile(r"^([a-z0-9._-]+==\S+)", re.MULTILINE)
    service = set(pinned.findall((ROOT / "requirements.lock").read_text()))
    image = set(pinned.findall((CONTAINERFILE.parent / "requirements.lock").read_text()))
    more = {each.partition("==")[0] for each in image - service}
    clients = {"confluent-kafka", "obstore", "psycopg", "psycopg-binary", "pyarrow"}
    assert clients | {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= more
    needed = {"charset-normalizer", "googleapis-common-protos", "protobuf", "requests", "urllib3"}
    assert {name for name in more if not name.startswith("opentelemetry-")} <= clients | needed
    assert service <= image


def test_the_health_check_is_the_file_beside_it() -> None:
    """What the image asks is the file that the tests of the service run, and nothing stands before the command."""
    (check,) = instructions("HEALTHCHECK")
    assert json.loads(check.partition("CMD ")[2])[-1] == "/opt/hookline/healthy.py"
    assert "deploy/container/healthy.py /opt/hookline/healthy.py" in instructions("COPY", stage=-1)
    assert instructions("ENTRYPOINT") == []


@pytest.mark.parametrize(
    "base", ["", "python:3.11-slim-bookworm", "python@sha256:12ab", f"python:3@sha256:{'a' * 64} x"]
)
def test_a_release_is_built_from_a_digest_alone(base: str) -> None:
    """Whoever controls a tag could change what a release is built from; the sentence says what to write."""
    built = image(base)
    assert (built.returncode, "@sha256:" in built.stderr, built.stdout) == (1, True, "")


def test_the_digest_reaches_the_build() -> None:
    """It is what every stage begins with."""
    base = f"python:3.11-slim-bookworm@sha256:{'0123456789abcdef' * 4}"
    assert f"--build-arg PYTHON_IMAGE={base} " in image(base).stdout


@pytest.mark.parametrize(("name", "said"), [("podman", True), ("buildah", True), ("docker", False)])
def test_the_health_check_is_kept_by_every_engine(tmp_path: Path, name: str, said: bool) -> None:
    """Podman and Buildah leave it out of images in their own format; Docker does not know the option."""
    (tmp_path / name).write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / name).chmod(0o755)
    asked = image(f"python@sha256:{'a' * 64}", str(tmp_path / name)).stdout
    assert asked.startswith("build --format docker --file" if said else "build --file")


def image(base: str, engine: str = "echo") -> subprocess.CompletedProcess[str]:
    """What ``make image`` does, with an engine that only says what it was asked for."""
    environment = {**os.environ, "PYTHON_IMAGE": base, "ENGINE": engine}
    return subprocess.run(["sh", "scripts/image.sh"], cwd=ROOT, env=environment, capture_output=True, text=True)
