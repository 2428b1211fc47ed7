"""A disk whose power can be cut: ext4 on a loop device, shut down by the kernel without writing back anything.

After the cut the file system refuses everything; what was not synchronised before is gone, as it is when a machine
loses power. Needs root and loop devices.
"""

from __future__ import annotations

import array
import errno
import fcntl
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from hookline.bench.machine import wait_until

EXT4_IOC_SHUTDOWN = 0x8004587D
"""_IOR('X', 125, __u32), the same for ext4, XFS and F2FS."""

NO_LOG_FLUSH = 2
"""Nothing is written any more, the file system's own journal neither."""

DISK_BYTES = 16 * 1024 * 1024 * 1024
"""Of an image with holes, which takes what is written to it; 200 cuts on a slow machine fill a gigabyte."""
ROOM_BYTES_MIN = 256 * 1024 * 1024
UNMOUNT_SECONDS = 30.0
COMMANDS = ("mkfs.ext4", "mount", "umount")


class LoopDisk:
    """A context manager around a mounted disk image; ``folder`` is where it is mounted."""

    def __init__(self, folder: Path) -> None:
        self._image = folder / "disk.img"
        self.folder = folder / "disk"

    def __enter__(self) -> LoopDisk:
        self.folder.mkdir()
        with self._image.open("wb") as file:
            file.truncate(DISK_BYTES)
        _run("mkfs.ext4", "-q", "-F", "-m", "0", str(self._image))
        self._mount()
        return self

    def __exit__(self, *_: object) -> None:
        if self.folder.is_mount():
            self._unmount()

    def cut(self) -> None:
        """Cut the power: from the return on nothing reaches the disk."""
        if not self.folder.is_mount() or self.folder.stat().st_dev == Path("/").stat().st_dev:
            raise RuntimeError(f"{self.folder} is no disk of its own: its file system is not shut down")
        folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.ioctl(folder, EXT4_IOC_SHUTDOWN, array.array("I", [NO_LOG_FLUSH]))
        finally:
            os.close(folder)

    def power_on(self) -> None:
        """Mount what the disk holds; every process that had files there must be gone.

        RuntimeError when it is nearly full: what cannot be written any more would look as if it was lost.
        """
        wait_until(self._is_on_again, UNMOUNT_SECONDS, "the disk works again after it was mounted anew")
        room = os.statvfs(self.folder)
        if room.f_bavail * room.f_frsize < ROOM_BYTES_MIN:
            raise RuntimeError("the disk of the power cuts is nearly full; make DISK_BYTES larger")

    def _is_on_again(self) -> bool:
        """Mount it anew; somebody else's copy of the mount may keep the file system alive that was shut down."""
        self._unmount()
        self._mount()
        probe = self.folder / "works"
        try:
            probe.touch()
            probe.unlink()
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return False
        return True

    def _mount(self) -> None:
        _run("mount", "-o", "loop", str(self._image), str(self.folder))

    def _unmount(self) -> None:
        wait_until(
            lambda: subprocess.run(["umount", str(self.folder)], check=False, capture_output=True).returncode == 0,
            UNMOUNT_SECONDS,
            "the disk unmounted",
        )


def unavailable() -> str | None:
    """Why this machine has no such disk; None when it has one, which was tried."""
    if os.geteuid() != 0:
        return "needs to be run by root, with loop devices"
    if missing := [name for name in COMMANDS if shutil.which(name) is None]:
        return f"needs {', '.join(missing)} (Debian: apt install e2fsprogs mount)"
    with TemporaryDirectory(prefix="hookline-bench-") as folder:
        try:
            with LoopDisk(Path(folder)) as disk:
                disk.cut()
                disk.power_on()
        except (OSError, subprocess.CalledProcessError, TimeoutError) as error:
            return f"this machine cannot mount or shut down a loop device ({error})"
    return None


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
