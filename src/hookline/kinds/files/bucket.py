"""Files in a bucket of any S3-compatible store, through obstore."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from hookline.kinds.files.store import FILE_BYTES_MAX, too_large
from hookline.kinds.files.tunnel import ANSWER_BYTES_MAX, Tunnel
from hookline.kinds.model import Json
from hookline.kinds.sink import SinkContext, SinkFailed
from hookline.telemetry.crashpoints import crash_point

if TYPE_CHECKING:
    from obstore.store import ClientConfig, S3Credential, S3Store

AT_ONCE = 8
"""Requests at once while a write puts its files."""
CHANGES_MAX = 5
"""How often a file is read anew because somebody else changed it meanwhile."""
REQUEST_SECONDS = 30
CONNECT_SECONDS = 5
RETRIES_MAX = 3
RETRY_SECONDS = 20
"""What lasts longer is tried again as a whole, by the lane."""
LISTING_SECONDS_MAX = 60.0
NAMES_MAX = 1_000_000
"""Of one listing."""
LISTED_BYTES_MAX = 8 * 1024 * 1024
"""Of one answer of a listing: 1,000 names of 1,024 bytes, percent-encoded, have 4 MB."""
PUT_ANSWER_BYTES = 16 * 1024
"""For each file of several: what is answered to it, and the certificates of a connection."""
PROBE = "_hookline/fence"
ERROR_CHARACTERS_MAX = 300
LOCK_SECONDS_MAX = 60.0

_LOCKS: dict[tuple[str, int, str, str], threading.Lock] = {}
"""One for each place that this process has written to: as many as destinations were configured since it began."""
_LOCKS_LOCK = threading.Lock()


class BucketStore:
    """A prefix of a bucket."""

    def __init__(self, context: SinkContext, settings: Mapping[str, Json]) -> None:
        endpoint = str(settings.get("endpoint") or f"https://s3.{settings['region']}.amazonaws.com").rstrip("/")
        parts = urlsplit(endpoint)
        is_tls = parts.scheme == "https"
        if not parts.hostname or (not is_tls and not settings.get("pathStyle", True)):
            raise SinkFailed("the endpoint cannot be used: write https://HOST, or http://HOST with path style")
        bucket, is_path_style = str(settings["bucket"]), bool(settings.get("pathStyle", True))
        host = parts.hostname if is_path_style else f"{bucket}.{parts.hostname}"
        port = parts.port or (443 if is_tls else 80)
        context.addresses(host, port)  # says at once what is not allowed
        self._prefix = str(settings.get("prefix") or "").strip("/")
        self._tunnel = Tunnel(host, port, context, is_tls=is_tls)
        if not is_path_style:  # the library wants the bucket in it then
            endpoint = endpoint.replace("://", f"://{bucket}.", 1)
        with _LOCKS_LOCK:
            self._lock = _LOCKS.setdefault((host, port, bucket, self._prefix), threading.Lock())
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="s3-put")
        self.is_fenced = True
        try:
            self._store = _new_store(settings, endpoint, self._tunnel.url, is_path_style)
            self._probe()
        except BaseException:
            self.close()
            raise

    def get(self, path: str) -> bytes | None:
        """Return a file, None when there is none."""
        found = self._read(path)
        return None if found is None else found[0]

    def put_all(self, files: Mapping[str, bytes]) -> None:
        """Write files, several at a time."""

        def put(each: tuple[str, bytes]) -> None:
            self._put_allowed(each[0], each[1], "overwrite")
            crash_point("files.one_written")

        self._tunnel.allow(ANSWER_BYTES_MAX + len(files) * PUT_ANSWER_BYTES)
        begun = [self._pool.submit(put, each) for each in files.items()]
        # All are waited for, also when one fails: nothing may be written later, behind what cleans up.
        failures = [failure for each in begun if (failure := each.exception()) is not None]
        if failures:
            raise failures[0]

    def create(self, path: str, data: bytes) -> bool:
        """Write a file unless there is one, where the store can do that."""
        return self._put(path, data, "create" if self.is_fenced else "overwrite")

    def change(self, path: str, change: Callable[[bytes], bytes | None]) -> None:
        """Replace a file unless somebody else did meanwhile: then it is read anew."""
        for _ in range(CHANGES_MAX):
            found = self._read(path)
            made = None if found is None else change(found[0])
            if found is None or made is None:
                return
            if self._put(path, made, {"e_tag": found[1]} if self.is_fenced and found[1] else "overwrite"):
                return
        raise SinkFailed(f"{path} is changed by somebody else again and again; end that, it is tried again")

    def delete_all(self, paths: Sequence[str]) -> None:
        """Take files away, those that are there."""
        import obstore

        for path in paths:
            self._tunnel.allow(ANSWER_BYTES_MAX)
            try:
                obstore.delete(self._store, self._at(path))
            except (FileNotFoundError, obstore.exceptions.NotFoundError):
                continue
            except obstore.exceptions.BaseError as error:
                raise self._failed(error) from None

    def names(self, folder: str, after: str) -> list[str]:
        """Return the names in a folder that come after one."""
        import obstore

        base = self._at(folder) + "/"
        endless = f"it lists {folder} without end; use another store, or another prefix"
        found: list[str] = []
        self._tunnel.allow(LISTED_BYTES_MAX)
        try:
            with self._tunnel.bounded(LISTING_SECONDS_MAX, endless):
                for batch in obstore.list(self._store, base, offset=base + after if after else None):
                    found += [name for each in batch if (name := str(each["path"])[len(base) :]) > after]
                    if len(found) > NAMES_MAX:
                        raise self._failed(ValueError(endless))
                    self._tunnel.allow(LISTED_BYTES_MAX)
        except obstore.exceptions.BaseError as error:
            raise self._failed(error) from None
        return sorted(found)

    def leave_nothing(self) -> None:
        """Take away the probe."""
        self.delete_all([PROBE])

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep out a sink of this process that has not ended yet; other processes are fenced by ``create``."""
        if not self._lock.acquire(timeout=LOCK_SECONDS_MAX):
            raise SinkFailed("the sink that was there before the settings changed does not end; it is tried again")
        try:
            yield
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the tunnel."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._tunnel.close()

    def _probe(self) -> None:
        """Find out whether the store refuses to create what is there: some do not know the condition."""
        try:
            self._put(PROBE, b"", "create")
            self.is_fenced = not self._put(PROBE, b"", "create")
        except SinkFailed:
            # It may refuse the condition itself, with whatever error: then it takes the same without.
            self._put(PROBE, b"", "overwrite")
            self.is_fenced = False

    def _put(self, path: str, data: bytes, mode: Any) -> bool:
        self._tunnel.allow(ANSWER_BYTES_MAX)
        return self._put_allowed(path, data, mode)

    def _put_allowed(self, path: str, data: bytes, mode: Any) -> bool:
        import obstore

        try:
            obstore.put(self._store, self._at(path), data, mode=mode, use_multipart=False)
        except (obstore.exceptions.AlreadyExistsError, obstore.exceptions.PreconditionError):
            return False
        except obstore.exceptions.BaseError as error:
            raise self._failed(error) from None
        return True

    def _read(self, path: str) -> tuple[bytes, str | None] | None:
        import obstore

        self._tunnel.allow(ANSWER_BYTES_MAX, grows=True)
        try:
            found = obstore.get(self._store, self._at(path))  # an answer that is no file has been read whole by now
            if found.meta["size"] > FILE_BYTES_MAX:
                raise too_large(path)
            self._tunnel.allow_more(found.meta["size"])
            return bytes(found.bytes()), found.meta.get("e_tag")
        except (FileNotFoundError, obstore.exceptions.NotFoundError):
            return None
        except obstore.exceptions.BaseError as error:
            raise self._failed(error) from None

    def _at(self, path: str) -> str:
        return f"{self._prefix}/{path}" if self._prefix else path

    def _failed(self, error: Exception) -> SinkFailed:
        said = str(error)[: 2 * ERROR_CHARACTERS_MAX]  # before it is split: a store may send a megabyte of words
        why = self._tunnel.refusal or " ".join(said.split("Debug source:")[0].split())
        return SinkFailed(f"the store does not take it: {why[:ERROR_CHARACTERS_MAX]}")


def _new_store(settings: Mapping[str, Json], endpoint: str, proxy: str, is_path_style: bool) -> S3Store:
    from obstore.store import S3Store

    access, secret = str(settings["accessKey"]), str(settings["secretKey"])

    def credential() -> S3Credential:
        return {"access_key_id": access, "secret_access_key": secret, "token": None, "expires_at": None}

    options: ClientConfig = {
        "timeout": timedelta(seconds=REQUEST_SECONDS),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "allow_http": endpoint.startswith("http://"),
        "proxy_url": proxy,
    }
    if settings.get("authority"):
        options["root_certificate"] = str(settings["authority"])
    return S3Store(
        str(settings["bucket"]),
        endpoint=endpoint,
        region=str(settings["region"]),
        virtual_hosted_style_request=not is_path_style,
        client_options=options,
        retry_config={
            "max_retries": RETRIES_MAX,
            "retry_timeout": timedelta(seconds=RETRY_SECONDS),
            "backoff": {"max_backoff": timedelta(seconds=5)},
        },
        # Not as plain settings: those would be joined with a session's token from the environment.
        credential_provider=credential,
    )
