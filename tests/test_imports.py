"""Imports point down: what `scripts/check` says of the product, and that it would notice otherwise."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LINT = (
    "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(cache_dir=None))"
)

UPWARD = {
    "queues/sqlite/puts.py": "evervec.capture",  # the queue knows nobody who fills it
    "queues/sqlite/claims.py": "evervec.worker",  # … or empties it
    "capture.py": "evervec.worker",  # who fills it knows nobody who empties it
    "worker.py": "evervec.queues.sqlite",  # … and a duty no adapter
    "stores/sqlite/store.py": "evervec.queues.sqlite",  # adapters do not know each other
    "plan.py": "evervec.embedding",  # a decision does nothing
    "text/template.py": "evervec.recipe",
    "model.py": "evervec.settings",
    "upkeep.py": "apsw",  # drivers are for adapters
    "collection.py": "evervec.testing.embedder",  # nothing leans on what is for tests
}


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", LINT],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.accepts("000-69")
def test_every_import_that_points_up_is_refused(tmp_path: Path) -> None:
    """Source to queue to worker to store: each knows what lies below it and nobody else."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    sound = lint(tmp_path)
    assert sound.returncode == 0, sound.stdout + sound.stderr
    for name, imported in UPWARD.items():
        file = tmp_path / "src" / "evervec" / name
        file.write_text(f"{file.read_text('utf-8')}\nimport {imported}\n", encoding="utf-8")
    broken = lint(tmp_path)
    assert broken.returncode == 1, broken.stdout + broken.stderr
    told = " ".join(broken.stdout.split())
    unnoticed = [
        f"{name} imports {imported}"
        for name, imported in UPWARD.items()
        if f"evervec.{name.removesuffix('.py').replace('/', '.')} -> {imported}" not in told
    ]
    assert not unnoticed, broken.stdout
