"""deploy/helm against the image, the settings and the commands; it is rendered by whoever installs it."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

import hookline
from hookline.cli.service.options import SUMMARIES
from hookline.settings import environment_name, keys, load, parse_duration
from tests.deploy.container import instructions
from tests.deploy.files import DEPLOY, read_yaml

CHART = DEPLOY / "helm" / "hookline"
VALUES = read_yaml(CHART / "values.yaml")
TEMPLATES = {path.name: path.read_text() for path in sorted((CHART / "templates").iterdir())}
PODS = ("main.yaml", "deliver.yaml", "collect.yaml")
HELPERS = TEMPLATES["_helpers.tpl"]


def test_the_chart_is_of_this_version() -> None:
    """The image is taken by the version of the package, unless another tag is given."""
    chart = read_yaml(CHART / "Chart.yaml")
    assert (chart["version"], chart["appVersion"]) == (hookline.__version__, hookline.__version__)


def test_settings_are_good_ones(tmp_path: Path) -> None:
    """What becomes hookline.yaml loads, and the variables that are named are settings."""
    config = tmp_path / "hookline.yaml"
    config.write_text(yaml.safe_dump(VALUES["settings"]))
    load(config, environment={})
    text = (CHART / "values.yaml").read_text() + "".join(TEMPLATES.values())
    named = set(re.findall(r"HOOKLINE_[A-Z_]*[A-Z]", text)) - {"HOOKLINE_SECRET"}
    assert named == {"HOOKLINE_CONTROL_ADMIN_TOKEN", "HOOKLINE_DATABASE_URL"}
    assert named <= {environment_name(key) for key in keys()}


def test_every_value_is_used_and_every_used_value_is_there() -> None:
    """A value that does nothing, or one that nobody can find, is noticed here."""
    used = {
        match.partition(".")[0] for text in TEMPLATES.values() for match in re.findall(r"\.Values\.([A-Za-z.]+)", text)
    }
    assert used == set(VALUES)
    for path in {match for text in TEMPLATES.values() for match in re.findall(r"\.Values\.([A-Za-z.]+)", text)}:
        value: object = VALUES
        for name in path.split("."):
            assert isinstance(value, dict)
            assert name in value, path
            value = value[name]


def test_pods_run_commands_that_there_are() -> None:
    """Everything in one, and a role each in those beside it; one data folder has one service."""
    commands = {name: re.findall(r"args: \[hookline, (\w+)\]", TEMPLATES[name]) for name in PODS}
    assert commands == {"main.yaml": ["up"], "deliver.yaml": ["deliver"], "collect.yaml": ["collect"]}
    assert {verb for verbs in commands.values() for verb in verbs} <= set(SUMMARIES)
    assert "replicas: 1 " in TEMPLATES["main.yaml"]
    assert (VALUES["deliver"]["replicas"], VALUES["collect"]["replicas"]) == (0, 0)


def test_pods_can_do_nothing_but_write_their_volume() -> None:
    """As the user of the image, on a read-only root, without a capability or a token of the cluster."""
    (user,) = instructions("USER", stage=-1)
    number, group = user.split(":")
    for line in (f"runAsUser: {number}", f"runAsGroup: {group}", f"fsGroup: {group}", "runAsNonRoot: true"):
        assert line in HELPERS
    for line in ("readOnlyRootFilesystem: true", "capabilities: {drop: [ALL]}", "automountServiceAccountToken: false"):
        assert line in HELPERS
    for name in PODS:
        assert 'include "hookline.pod"' in TEMPLATES[name], name
        assert 'include "hookline.container"' in TEMPLATES[name], name


def test_folders_and_ports_are_those_of_the_image() -> None:
    """The volume is the data folder, the settings are where they are looked for, the probes ask what listens."""
    environment = dict(re.findall(r"(HOOKLINE_\w+)=(\S+)", "\n".join(instructions("ENV"))))
    assert f"mountPath: {environment['HOOKLINE_DATA_DIR']}}}" in HELPERS
    assert f"mountPath: {instructions('WORKDIR', stage=-1)[0]}," in HELPERS
    ports = {environment[f"HOOKLINE_{role}_LISTEN"].rpartition(":")[2] for role in ("COLLECT", "CONTROL")}
    assert set(re.findall(r"containerPort: (\d+)", TEMPLATES["main.yaml"])) == ports
    paths = {path for text in TEMPLATES.values() for path in re.findall(r"httpGet: \{path: (\S+),", text)}
    assert paths == {"/healthz", "/readyz"}


def test_the_whole_is_tested_and_no_probe() -> None:
    """`helm test` asks every role by way of control; a pod is neither killed nor left without calls for one of them."""
    assert "/readyz?all" in TEMPLATES["test.yaml"]
    assert "helm.sh/hook: test" in TEMPLATES["test.yaml"]
    assert not [name for name in PODS if "?all" in TEMPLATES[name]]


def test_the_supervisor_has_the_time_to_end() -> None:
    """As long as the unit of systemd and compose give it, beside the pause before and the delay of collect."""
    (unit,) = re.findall(r"TimeoutStopSec=(\d+)", (DEPLOY / "systemd" / "hookline.service").read_text())
    (pause,) = re.findall(r"time\.sleep\((\d+)\)", HELPERS)
    delay = parse_duration(VALUES["settings"]["collect"]["drain_delay"])
    assert VALUES["terminationGracePeriodSeconds"] >= int(unit) + int(pause) + delay


def test_a_pod_that_ends_is_noticed_before_it_takes_no_calls() -> None:
    """Checks of readiness see its 503 within the delay, and of the pods that take calls one at a time may be moved."""
    (period,) = re.findall(r"readinessProbe:\n.*\n  periodSeconds: (\d+)", HELPERS)
    (failures,) = re.findall(r"failureThreshold: (\d+)  # seen", HELPERS)
    assert int(period) * int(failures) < parse_duration(VALUES["settings"]["collect"]["drain_delay"])
    for name in ("main.yaml", "collect.yaml"):
        assert 'include "hookline.ready"' in TEMPLATES[name], name
        assert 'hookline/collects: "true"' in TEMPLATES[name], name
    assert TEMPLATES["disruption.yaml"].count("maxUnavailable: 1") == 2
