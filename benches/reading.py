"""Real documents that anybody can install, fetched once with pip into a folder of their own.

Markdown as its authors wrote it: the manuals, tutorials, blog posts and release notes in the source
packages of Hatch (MIT) and Starlette (BSD-3-Clause), some 120 files of 0.6 MB. The versions and the
packages' bytes are pinned, so every run on every machine reads the same text.
"""

import hashlib
import os
import subprocess
import sys
import tarfile
import tempfile
from functools import cache
from pathlib import Path

PACKAGES = {
    "hatch==1.18.2": "7f365f1a5b8f1a8162813daed9bf9fce83f15dc933fc99c6d04cbb942e64f4d0",
    "starlette==1.10.0": "b8399098d4c1e3522734f7235dc79b1fc967f96cf139c81e0fa30479e0685f9b",
}


def kept() -> Path:
    """Return the folder where benchmarks keep what they fetch: `EVERVEC_BENCH_CACHE` or a temporary one."""
    default = Path(tempfile.gettempdir()) / "evervec-bench"
    folder = Path(os.environ.get("EVERVEC_BENCH_CACHE", default))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def markdown(folder: Path | None = None) -> dict[str, str]:
    """Return the Markdown files of *folder*, or else of the packages, as path to text, in order."""
    if folder is not None:
        return _read(folder)
    return {
        f"{package}/{name}": text
        for package in PACKAGES
        for name, text in _read(_unpacked(package)).items()
    }


def _read(folder: Path) -> dict[str, str]:
    files = sorted(folder.rglob("*.md"))
    return {str(file.relative_to(folder)): file.read_text("utf-8") for file in files}


def _unpacked(package: str) -> Path:
    target = kept() / package
    if not target.exists():
        with tempfile.TemporaryDirectory(dir=kept()) as scratch:
            pip("download", "--no-deps", "--no-binary", ":all:", "--dest", scratch, package)
            (archive,) = Path(scratch).glob("*.tar.gz")
            found = hashlib.sha256(archive.read_bytes()).hexdigest()
            if found != PACKAGES[package]:
                raise SystemExit(f"the source package of {package} has another checksum: {found}")
            with tarfile.open(archive) as opened:
                opened.extractall(Path(scratch) / "all", filter="data")
            (Path(scratch) / "all").rename(target)
    return target


def pip(*arguments: str, python: str = sys.executable) -> None:
    """Run pip, its words to stderr: stdout belongs to the result."""
    subprocess.run([python, "-m", "pip", *arguments], check=True, stdout=sys.stderr)
