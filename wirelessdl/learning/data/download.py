"""A file from the network: picked up where it broke off, verified, whole or absent under its own name."""

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from wirelessdl.errors import DataError, shown

Report = Callable[[str, int, int | None], None]  # what is under way, how much is done, of how much
_CHUNK = 1 << 18
_TIMEOUT_S = 30.0


class Unreachable(Exception):
    """The host did not answer, or stopped answering."""


def download(url: str, path: Path, md5: str, report: Report) -> Path:
    """Bring `url` to `path`, going on with a part that is already there. The checksum is verified before it is used."""
    require_secure(url)
    if path.is_file():
        if digest(path, "md5") == md5:
            return path
        path.unlink()
    part = path.with_name(f".{path.name}.part")
    try:
        _append(url, part, path.name, report)
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        reason = getattr(error, "reason", None) or error
        raise Unreachable(f"{url.split('/')[2]}: {reason}") from None
    except OSError as error:
        raise DataError(f"{part}: cannot be written: {error.strerror or error}") from None
    found = digest(part, "md5")
    if found != md5:
        part.unlink()
        raise DataError(
            f"{path.name}: the download is corrupt and was removed (MD5 {found}, expected {md5}): fetch it again"
        )
    part.replace(path)
    return path


class _SecureRedirects(urllib.request.HTTPRedirectHandler):
    """Follows a redirect only to where a download may come from."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        require_secure(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


_OPENER = urllib.request.build_opener(_SecureRedirects)
_THIS_MACHINE = ("127.0.0.1", "localhost", "::1")


def is_secure(url: str) -> bool:
    """Whether a download is encrypted, or does not leave this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)


def require_secure(url: str) -> None:
    """Raise unless data may be downloaded from there."""
    if not is_secure(url):
        raise DataError(f"{shown(url)}: is not https; data sets are only downloaded over https")


def _append(url: str, part: Path, name: str, report: Report) -> None:
    done = part.stat().st_size if part.is_file() else 0
    request = urllib.request.Request(url, headers={"User-Agent": "wirelessdl"})
    if done:
        request.add_header("Range", f"bytes={done}-")
    try:
        response = _OPENER.open(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code == 416 and done:  # nothing is left to send
            return
        raise
    with response:
        if response.status != 206:  # the host starts over, and so do we
            done = 0
        left = response.headers.get("Content-Length")
        total = done + int(left) if left else None
        with part.open("ab" if done else "wb") as handle:
            while chunk := response.read(_CHUNK):
                handle.write(chunk)
                done += len(chunk)
                report(name, done, total)
            handle.flush()
            os.fsync(handle.fileno())
        if total is not None and done < total:
            raise ConnectionError(f"broke off after {done} of {total} bytes")


def digest(path: Path, algorithm: str) -> str:
    """Checksum of a file, in hexadecimal."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, algorithm).hexdigest()
