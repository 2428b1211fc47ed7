"""The machine: versions, limits and the clock."""

from __future__ import annotations

import ctypes
import math
import platform
import resource
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.metadata import version

from hookline import __version__
from hookline.cli.checkup.here import Finding, Here, limits_of
from hookline.collect.decode import CONNECTIONS_MAX
from hookline.database.connect import connect
from hookline.database.installation import LOCAL
from hookline.database.location import location_of
from hookline.database.open import ENGINE_VERSION_MIN
from hookline.database.sqlite import DatabaseAway, engine
from hookline.journal.opening import open_reader
from hookline.telemetry.metrics import PROCESS_CLOCK_SHIFT

LIBRARIES = ("uvloop", "httptools", "msgspec", "litestar", "uvicorn", "cryptography")
OPEN_FILES_BESIDE = 4_096
"""Files, and connections to receivers, beside those of clients."""
SHIFT_SECONDS = 2.0
AHEAD_SECONDS = 5.0
BUILT_AFTER_SECONDS = 1_767_225_600
"""2026 has begun: a clock that says otherwise was never set."""
_STA_UNSYNC = 0x40


def check_versions(here: Here) -> Iterator[Finding]:
    """Look at what is installed, and the one thing that must not be older."""
    installed = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    message = f"Hookline {__version__}, Python {platform.python_version()}, SQLite {engine.sqlite_version}, {installed}"
    yield sqlite_finding(engine.sqlite_version_info) or Finding("versions", "ok", message)


def sqlite_finding(found: tuple[int, ...]) -> Finding | None:
    """Return what is wrong with this version of SQLite, if anything."""
    if found >= ENGINE_VERSION_MIN:
        return None
    text, least = ".".join(map(str, found)), ".".join(map(str, ENGINE_VERSION_MIN))
    return Finding(
        "versions",
        "fail",
        f"SQLite {text} can corrupt its files under two writers (fixed in {least})",
        "Install pysqlite3 0.6.1 or newer from a wheel.",
    )


def check_limits(here: Here) -> Iterator[Finding]:
    """Open files against connections; the service raises the soft limit to the hard one by itself."""
    limits = [limits_of(process, "open files") for process in here.processes()]
    hard = min((each[1] for each in limits if each is not None), default=_own_limit())
    needed = CONNECTIONS_MAX + OPEN_FILES_BESIDE
    where = "to the service" if here.runs else "here"
    if hard >= needed:
        shown = "without a limit" if math.isinf(hard) else f"{hard:,.0f} allowed {where}"
        yield Finding("limits", "ok", f"open files: {shown}, {needed:,} needed at most")
    else:
        yield Finding(
            "limits",
            "warn",
            f"open files: {hard:,.0f} allowed {where}; {CONNECTIONS_MAX:,} client connections would need {needed:,}",
            f"Raise the limit of the service (ulimit -Hn, LimitNOFILE in systemd) to {needed}.",
        )


def _own_limit() -> float:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    return math.inf if hard == resource.RLIM_INFINITY else hard


def check_clock(here: Here) -> Iterator[Finding]:
    """Jumps since the roles started, other clocks, what is from the future, and whether NTP keeps the time."""
    findings = [*_shifts(here), *_beside_others(here), *_from_the_future(here), *_synchronised()]
    if all(finding.status == "ok" for finding in findings):
        synchronised = "".join(f"; {finding.message}" for finding in findings)
        yield Finding("clock", "ok", f"no jumps seen{synchronised}")
    else:
        yield from (finding for finding in findings if finding.status != "ok")


def _shifts(here: Here) -> Iterator[Finding]:
    for role, report in here.reports.items():
        shift = report.number(PROCESS_CLOCK_SHIFT) if report.fresh else 0.0
        if abs(shift) > SHIFT_SECONDS:
            way = "forward" if shift > 0 else "back"
            message = f"the clock was set {way} by {abs(shift):.0f} s since {role} started"
            yield Finding(
                "clock",
                "warn",
                message,
                "Let NTP keep it: the times that people see follow it.",
            )


def _beside_others(here: Here) -> Iterator[Finding]:
    """The clocks that there are to compare with: that of the build, of the files here, and of PostgreSQL."""
    now = time.time()
    if now < BUILT_AFTER_SECONDS:
        message = f"the clock says {time.strftime('%Y-%m-%d', time.gmtime(now))}, before this Hookline was made"
        yield Finding("clock", "fail", message, "Set the clock right, and let NTP keep it.")
    written = [path.stat().st_mtime for path in here.settings.data_path.glob("*") if path.is_file()]
    if (ahead := max(written, default=now) - now) > AHEAD_SECONDS:
        message = f"a file of the data folder was written {ahead:.0f} s in the future: the clock was set back"
        yield Finding("clock", "warn", message, "Set the clock right, and let NTP keep it.")
    if here.settings.database.url != LOCAL and abs(apart := _apart_from_database(here)) > SHIFT_SECONDS:
        way = "behind" if apart > 0 else "ahead of"
        message = f"this machine's clock is {abs(apart):.0f} s {way} the clock of PostgreSQL"
        yield Finding("clock", "warn", message, "Let NTP keep both.")


def _apart_from_database(here: Here) -> float:
    """Return by how many seconds PostgreSQL is ahead; 0 where it does not answer, which another check says."""
    try:
        with closing(connect(location_of(here.settings, "control"), read_only=True)) as connection:
            began = time.time()
            ((theirs,),) = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchall()
            return float(theirs) - (began + time.time()) / 2
    except (DatabaseAway, engine.Error, ImportError):
        return 0.0


def _from_the_future(here: Here) -> Iterator[Finding]:
    journal = open_reader(here.settings.data_path / "journal")
    try:
        newest = [journal.get(each, journal.end(each) - 1) for each in journal.partitions() if journal.end(each)]
    finally:
        journal.close()
    ahead = max((record.received_at / 1000 - time.time() for record in newest if record is not None), default=0.0)
    if ahead > AHEAD_SECONDS:
        message = f"the newest event was received {ahead:.0f} s in the future: the clock was set back"
        yield Finding("clock", "warn", message, "Set the clock right, and let NTP keep it.")


class _Timex(ctypes.Structure):
    """The first fields of the kernel's ``struct timex``, and room for the others."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("rest", ctypes.c_byte * 512),
    )


def _synchronised() -> Iterator[Finding]:
    """Return what the kernel says (adjtimex, Linux only); reading it needs no rights."""
    timex = _Timex()
    try:
        if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) < 0:
            return
    except (OSError, AttributeError):
        return
    if timex.status & _STA_UNSYNC:
        yield Finding(
            "clock",
            "warn",
            "the system does not say that its clock is synchronised",
            "Run chrony, systemd-timesyncd or ntpd here, or on the host of this container.",
        )
    else:
        yield Finding("clock", "ok", f"synchronised, off by at most {timex.maxerror / 1000:.0f} ms")
