"""Hold the options that commands share: which Hookline they talk to, with which token, and how they answer. Text from
events must not steer the terminal it is printed on.

The settings of the server last started with ``up`` on the data folder count before those of the command's own
environment and file, since it may have been started with flags.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from hookline.cli.admin_api import AdminApi, CommandFailed, is_loopback, is_same_port, require_address, url_of
from hookline.cli.launch import last_launch
from hookline.settings import Origin, Settings, SettingsError, load


@Parameter(name="*", group="Server")
@dataclass(frozen=True, kw_only=True)
class Target:
    """Options that name the server."""

    config: Path | None = None
    """Settings file (default: ./hookline.yaml where it exists)."""

    data_dir: str | None = None
    """Data folder of the server. The admin token is read from it."""

    api: str | None = None
    """Address of the admin API of another server, such as https://hookline.example.com. Needs --token."""

    insecure_http: Annotated[bool, Parameter(negative="", show_default=False)] = False
    """Allow plain HTTP for --api on another machine. Anyone on the network path can read the token."""

    token: Annotated[str | None, Parameter(env_var="HOOKLINE_CONTROL_ADMIN_TOKEN", show_env_var=True)] = None
    """Admin token, or one that hookline tokens create made (default: the setting, else the file admin-token of the data
    folder)."""

    utc: Annotated[bool, Parameter(negative="", show_default=False, group="Parameters")] = False
    """Print times in UTC. On a terminal, lists otherwise show local time."""

    def own_settings(self) -> tuple[Settings, list[Origin]]:
        """The settings of this shell; raise SettingsError when they cannot be read."""
        return load(self.config, flags={"data_dir": self.data_dir})

    def settings(self) -> Settings:
        """The settings of the server as far as they can be known from here."""
        try:
            own, _ = self.own_settings()
        except SettingsError as error:
            raise CommandFailed(str(error), exit_code=2) from None
        launch = last_launch(own)
        settings = own if launch is None else launch.settings
        if not settings.journal.is_local:
            from hookline.journal.opening import remember_secrets  # here: few commands open a journal

            remember_secrets(settings)
        return settings

    def admin(self) -> AdminApi:
        """A client of the admin API."""
        settings = self.settings()
        local = url_of(settings.control.listen)
        url = self.api or local
        require_address(url)
        if is_same_port(url, local):
            return AdminApi(url, self._token(settings))
        if not self.token:
            raise CommandFailed(
                f"{url} is not the Hookline of {settings.data_path}, so the admin token found here is not sent to it; "
                "give that server's token with --token or HOOKLINE_CONTROL_ADMIN_TOKEN",
                exit_code=2,
            )
        if not (self.insecure_http or url.lower().startswith("https:") or is_loopback(url)):
            raise CommandFailed(
                f"{url} would send the token over the network where anyone can read it; use https://, a tunnel to"
                " 127.0.0.1, or --insecure-http if the network itself is trusted",
                exit_code=2,
            )
        return AdminApi(url, self.token)

    def collect_url(self) -> str:
        """The address of the collection API."""
        settings = self.settings()
        return settings.collect.public_url or url_of(settings.collect.listen)

    def _token(self, settings: Settings) -> str:
        if self.token or settings.control.admin_token:
            return str(self.token or settings.control.admin_token)
        path = settings.data_path / "admin-token"
        try:
            return path.read_text().strip()
        except FileNotFoundError:
            raise CommandFailed(
                f"there is no admin token in {path}; start Hookline there first (hookline up), name its folder with "
                "--data-dir, or give --token: one that Hookline was given by its settings is kept in no file"
            ) from None
        except OSError as error:
            raise CommandFailed(f"cannot read {path}: {error.strerror}; run as its owner or give --token") from None


@dataclass(frozen=True, kw_only=True)
class Options(Target):
    """Options of a command that asks the server for something."""

    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False, group="Parameters")] = False
    """Print the answer as JSON."""


def printable(text: str, keep: str = "") -> str:
    """The text with control characters made visible; those in ``keep`` stay."""
    return "".join(c if c.isprintable() or c in keep else f"\\u{ord(c):04x}" for c in text)
