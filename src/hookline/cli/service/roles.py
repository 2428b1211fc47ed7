"""``hookline collect``, ``deliver``, ``profiles`` and ``control``: one role of the service in this process.

Under a supervisor the settings come from ``run/launch.json`` of the data folder; alone, from flags, environment and
file, and the role takes its place in the data folder itself. What a role consists of is ``hookline.app``.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Sequence
from pathlib import Path

from hookline.cli.service import lock

SUPERVISED = "--supervised"
"""First argument of a role that a supervisor started; the data folder follows."""
FEW_FILES = 4096
"""Bounds how many open files a process may come to use up: with a lower limit it is prepared for that."""


def role(name: str, arguments: Sequence[str]) -> int:
    """Run the role until it is told to end and return its exit code."""
    from hookline.cli.launch import LAUNCH_FILE, read
    from hookline.cli.service.options import USAGE, parse
    from hookline.cli.service.supervisor import forbid_core_dumps
    from hookline.settings import SettingsError

    try:
        if arguments[:1] == [SUPERVISED]:
            launch = read(Path(arguments[1]) / "run" / LAUNCH_FILE)
        else:
            launch = parse(name, arguments)
            forbid_core_dumps()
            folder = str(launch.settings.data_path)
            lock.prepare(folder)
            lock.hold_for_role(folder, name, launch.settings.collect.drain_delay)
    except SettingsError as error:
        print(f"hookline: {error}", file=sys.stderr)
        return USAGE
    except (lock.FolderInUse, OSError) as error:
        print(f"hookline: {error}", file=sys.stderr)
        return 1
    if not launch.settings.journal.is_local:
        from hookline.freed_memory import share_one_heap

        share_one_heap()
    if 0 <= resource.getrlimit(resource.RLIMIT_NOFILE)[1] < FEW_FILES:  # without a limit it is -1
        import ctypes  # noqa: F401 - loaded when memory is given back, and then there may be no descriptor left
    import hookline.app as app

    if name == "collect":
        return app.run_collect(launch.settings)
    if name == "deliver":
        return app.run_deliver(launch.settings)
    if name == "profiles":
        return app.run_profiles(launch.settings)
    connections = Path(launch.connections) if launch.connections else None
    if launch.one_time_link and arguments[:1] != [SUPERVISED]:
        from hookline.api.auth.admin_token import link_path

        link = link_path(launch.settings.data_path)
        print(
            f"hookline: the one-time link is in {link}; it works once, within 15 minutes", file=sys.stderr, flush=True
        )
    return app.run_control(launch.settings, connections, launch.one_time_link, launch.origins)
