"""``hookline doctor``: how an installation is set up, what is wrong with it, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

import msgspec

from hookline.cli.checkup import configured, data_folder, machine, running
from hookline.cli.checkup.data_folder import SECRET_KEYS
from hookline.cli.checkup.finding import Finding
from hookline.cli.checkup.here import Here, look
from hookline.cli.failure import CommandFailed
from hookline.cli.target import Target
from hookline.connections.secrets import mask
from hookline.database.sqlite import engine as sqlite
from hookline.journal.port import JournalError
from hookline.settings import Bytes, Origin, Seconds, SettingsError, keys

CHECKS: tuple[Callable[[Here], Iterator[Finding]], ...] = (
    configured.check_settings,
    data_folder.check_folder,
    data_folder.check_disk,
    data_folder.check_permissions,
    machine.check_versions,
    machine.check_limits,
    machine.check_clock,
    running.check_roles,
    running.check_ports,
    running.check_notices,
    configured.check_connections,
    configured.check_destinations,
)
SHAPES = {"ok": ("●", "green"), "warn": ("▲", "yellow"), "fail": ("■", "red")}
LABEL_WIDTH = 12
URL_KEYS = ("database.url", "journal.url")
UNITS: dict[object, tuple[tuple[str, float], ...]] = {
    Seconds: (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)),
    Bytes: (("TB", 1024**4), ("GB", 1024**3), ("MB", 1024**2), ("KB", 1024), ("B", 1)),
}


def doctor(server: Target, as_json: bool) -> int:
    """Look at everything and print it; 1 when something is wrong, else 0."""
    try:
        here = look(server)
    except SettingsError as error:
        findings = [Finding("settings", "fail", str(error), "Correct it; Hookline does not start like this.")]
        return _print(as_json, [], findings, started=False)
    findings = [finding for check in CHECKS for finding in examine(check, here)]
    return _print(as_json, here.origins, findings, started=here.launch is not None)


def examine(check: Callable[[Here], Iterator[Finding]], here: Here) -> list[Finding]:
    """What one check finds; that it cannot be made is a finding too."""
    name = check.__name__.removeprefix("check_")
    try:
        return list(check(here))
    except (OSError, sqlite.Error, JournalError, CommandFailed) as error:
        next_step = "Run this as the user that runs Hookline; if it is, the file is damaged or of another version."
        return [Finding(name, "fail", f"cannot be looked at: {error}", next_step)]


def shown(origin: Origin) -> object:
    """A setting's value as people may see it."""
    value = origin.value
    if origin.key in SECRET_KEYS and value is not None:
        return mask(str(value))
    if origin.key in URL_KEYS and (password := urlsplit(str(value)).password):
        return str(value).replace(f":{password}@", f":{mask('')}@", 1)
    return list(value) if isinstance(value, tuple) else value


def _print(as_json: bool, origins: Sequence[Origin], findings: Sequence[Finding], started: bool) -> int:
    failed = any(finding.status == "fail" for finding in findings)
    if as_json:
        settings = [{"key": each.key, "value": shown(each), "source": each.source} for each in origins]
        document = {"ok": not failed, "settings": settings, "findings": findings}
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return int(failed)
    if origins:
        print("Settings" + (" of the running server" if started else ""))
        for each in origins:
            print(f"  {each.key:<26}{written(each):<34}{each.source}")
        print("\nFindings")
    paint = _paint()
    for finding in findings:
        shape, colour = SHAPES[finding.status]
        print(f"  {paint(f'{shape} {finding.status:<5}', colour)} {finding.check:<{LABEL_WIDTH}} {finding.message}")
        if finding.next_step is not None and finding.status != "ok":
            print(f"{'':<{LABEL_WIDTH + 11}}→ {finding.next_step}")
    counts = {status: sum(finding.status == status for finding in findings) for status in SHAPES}
    print(f"\n{counts['fail']} wrong, {counts['warn']} worth a look, {counts['ok']} fine")
    return int(failed)


def written(origin: Origin) -> str:
    """A setting's value as a settings file has it."""
    value, kind = shown(origin), keys()[origin.key]
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float) and kind in UNITS:
        return _in_units(value, UNITS[kind])
    return str(value)


def _in_units(value: float, units: tuple[tuple[str, float], ...]) -> str:
    """The value in the largest unit that gives a whole number."""
    for name, size in units:
        if value and value % size == 0:
            return f"{value // size:.0f}{name}"
    return f"{value:g}{units[-1][0]}"


def _paint() -> Callable[[str, str], str]:
    if not sys.stdout.isatty():
        return lambda text, _: text
    codes = {"green": 32, "yellow": 33, "red": 31}
    return lambda text, colour: f"\x1b[{codes[colour]}m{text}\x1b[0m"
