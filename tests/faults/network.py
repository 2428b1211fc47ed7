"""A network of its own for one broker, joined to this machine's by a cable that can be pulled.

Linux, and root: a network namespace and a pair of virtual interfaces. With the far end down what is sent goes nowhere
and nothing is refused, as behind a dead switch.
"""

from __future__ import annotations

import os
import subprocess

NAMESPACE = "hookline-faults"
NEAR, FAR = "hlfaults0", "hlfaults1"
NEAR_ADDRESS, FAR_ADDRESS = "10.231.77.1", "10.231.77.2"


class Network:
    """A context manager: the namespace exists inside it. ``within`` is put before a command that is to run there."""

    within = ("ip", "netns", "exec", NAMESPACE)

    def __enter__(self) -> Network:
        self.__exit__()
        _ip("netns", "add", NAMESPACE)
        _ip("link", "add", NEAR, "type", "veth", "peer", "name", FAR, "netns", NAMESPACE)
        _ip("addr", "add", f"{NEAR_ADDRESS}/30", "dev", NEAR)
        _ip("link", "set", NEAR, "up")
        _ip("-n", NAMESPACE, "addr", "add", f"{FAR_ADDRESS}/30", "dev", FAR)
        _ip("-n", NAMESPACE, "link", "set", "lo", "up")
        self.plug()
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["ip", "link", "del", NEAR], capture_output=True, check=False)
        subprocess.run(["ip", "netns", "del", NAMESPACE], capture_output=True, check=False)

    def pull(self) -> None:
        """From now on nothing gets through."""
        _ip("-n", NAMESPACE, "link", "set", FAR, "down")

    def plug(self) -> None:
        """From now on everything does."""
        _ip("-n", NAMESPACE, "link", "set", FAR, "up")


def why_not() -> str | None:
    """Why this machine offers no such network; None when it does."""
    if os.geteuid() != 0:
        return "needs root"
    try:
        with Network():
            return None
    except (OSError, subprocess.CalledProcessError) as error:
        return f"no network namespaces here: {error}"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], capture_output=True, check=True)
