"""``hookline doctor``: how an installation is set up, what is wrong with it, and what to do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import msgspec

from hookline.cli.admin_api import CommandFailed
from hookline.cli.checkup import configured, database, hardening, journal, machine, running
from hookline.cli.checkup.here import Finding, Here, look
from hookline.cli.target import Target, printable
from hookline.database.sqlite import DatabaseAway, DatabaseUnreadable
from hookline.database.sqlite import engine as sqlite
from hookline.journal.port import JournalError
from hookline.setting_text import shown, written
from hookline.settings import Origin, SettingsError
from hookline.telemetry.log import silenced

CHECKS: tuple[Callable[[Here], Iterator[Finding]], ...] = (
    configured.check_settings,
    database.check_folder,
    database.check_parts,
    database.check_disk,
    database.check_permissions,
    database.check_database,
    machine.check_versions,
    machine.check_limits,
    machine.check_clock,
    journal.check_journal,
    running.check_roles,
    running.check_ports,
    running.check_notices,
    configured.check_connections,
    configured.check_destinations,
    hardening.check_listeners,
    hardening.check_proxies,
    hardening.check_networks,
    hardening.check_secrets,
    hardening.check_core_dumps,
    hardening.check_user,
)
SHAPES = {"ok": ("●", "green"), "warn": ("▲", "yellow"), "fail": ("■", "red")}
LABEL_WIDTH = 12


def doctor(server: Target, as_json: bool) -> int:
    """Look at everything and print it; 1 when something is wrong, else 0."""
    try:
        here = look(server)
    except SettingsError as error:
        findings = [Finding("settings", "fail", str(error), "Correct it; Hookline does not start like this.")]
        return _print(as_json, [], findings, started=False)
    with silenced():  # what a database refuses is a finding: a log line would stand in between
        findings = [finding for check in CHECKS for finding in examine(check, here)]
    return _print(as_json, here.origins, findings, started=here.launch is not None)


def examine(check: Callable[[Here], Iterator[Finding]], here: Here) -> list[Finding]:
    """Return what one check finds; that it cannot be made is a finding too."""
    name = check.__name__.removeprefix("check_")
    try:
        return list(check(here))
    except DatabaseUnreadable as error:
        next_step = "Run the hookline of the version that wrote it, or of a later one."
        return [Finding(name, "fail", f"cannot be checked: {error}", next_step)]
    except DatabaseAway as away:
        return [Finding(name, "fail", f"cannot be checked: {away}", away.next_step)]
    except (OSError, sqlite.Error, JournalError, CommandFailed) as error:
        next_step = "Run this as the user that runs Hookline; if it is, the file is damaged or of another version."
        return [Finding(name, "fail", f"cannot be checked: {error}", next_step)]


def _print(as_json: bool, origins: Sequence[Origin], findings: Sequence[Finding], started: bool) -> int:
    failed = any(finding.status == "fail" for finding in findings)
    if as_json:
        settings = [{"key": each.key, "value": shown(each.key, each.value), "source": each.source} for each in origins]
        document = {"ok": not failed, "settings": settings, "findings": findings}
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return int(failed)
    paint = _paint()
    for finding in sorted(findings, key=lambda each: list(SHAPES)[::-1].index(each.status)):
        shape, colour = SHAPES[finding.status]
        message = printable(finding.message)
        print(f"  {paint(f'{shape} {finding.status:<5}', colour)} {finding.check:<{LABEL_WIDTH}} {message}")
        if finding.next_step is not None and finding.status != "ok":
            print(f"{'':<{LABEL_WIDTH + 11}}→ {printable(finding.next_step)}")
    counts = {status: sum(finding.status == status for finding in findings) for status in SHAPES}
    print(f"\n{counts['fail']} wrong, {counts['warn']} worth a look, {counts['ok']} fine")
    if origins:
        print("\nSettings" + (" of the running server" if started else ""))
        width = max(len(each.key) for each in origins)
        for each in origins:
            print(f"  {each.key:<{width}}  {written(each.key, each.value):<32}  {each.source}")
    return int(failed)


def _paint() -> Callable[[str, str], str]:
    if not sys.stdout.isatty():
        return lambda text, _: text
    codes = {"green": 32, "yellow": 33, "red": 31}
    return lambda text, colour: f"\x1b[{codes[colour]}m{text}\x1b[0m"
