"""The documentation is true: links lead somewhere, examples run, every promise names its tests."""

import ast
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path

import pytest

import evervec

ROOT = Path(__file__).resolve().parent.parent
PROMISES = [f"G{number}" for number in range(1, 11)]


def pages() -> list[Path]:
    skipped = {".git", ".venv", "node_modules", "build", "dist"}
    return [
        page
        for page in sorted(ROOT.rglob("*.md"))
        if not skipped & set(page.relative_to(ROOT).parts)
        # What tests feed to the program is data, with whatever links it likes.
        and "tests" not in page.relative_to(ROOT).parts
    ]


def guides() -> list[Path]:
    """The pages whose examples run."""
    return [page for page in pages() if page.name == "README.md" or (ROOT / "docs") in page.parents]


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


# --- Links ---------------------------------------------------------------------------------------


def without_code(text: str) -> str:
    text = re.sub(r"^(```+|~~~+).*?^\1\s*$", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors_of(page: Path) -> set[str]:
    """The names that headings get where Markdown is shown."""
    text = re.sub(
        r"^(```+).*?^\1\s*$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    headings = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text(encoding="utf-8")))
    broken = []
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            broken.append(link)
    assert not broken


# --- Examples ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """A fenced example, and what its fence says about it."""

    page: Path
    line: int
    language: str
    words: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def blocks(*languages: str) -> list[Block]:
    return [block for block in every_block() if block.language in languages]


def every_block() -> Iterator[Block]:
    for page in guides():
        text = page.read_text(encoding="utf-8")
        for found in re.finditer(
            r"^```(\w+)([^\n]*)\n(.*?)^```\s*$", text, re.MULTILINE | re.DOTALL
        ):
            line = text.count("\n", 0, found.start()) + 1
            yield Block(page, line, found[1], tuple(found[2].split()), found[3])


def prepare(folder: Path) -> None:
    """What the examples talk about: a shop's database and a folder of notes."""
    shop = sqlite3.connect(folder / "shop.db")
    shop.executescript("""
        create table articles (
            id integer primary key,
            title text not null,
            body text not null,
            price real not null default 0
        );
        insert into articles (title, body) values
            ('Leases', 'A lease expires when its holder stops renewing it.'),
            ('Kettles', 'A kettle boils water for tea.'),
            ('Bicycles', 'A bicycle has two wheels and no engine.');
    """)
    shop.close()
    for name in ("notes", "docs"):
        (folder / name).mkdir()
        (folder / name / "tea.md").write_text("# Tea\n\nBoil water, then wait.\n", encoding="utf-8")
        (folder / name / "work.txt").write_text("Ring Ada about the lease.\n", encoding="utf-8")


def compile_block(block: Block) -> None:
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    compile(block.text, str(block), "exec", flags=flags | ast.PyCF_ONLY_AST)


@pytest.mark.parametrize("block", blocks("python"), ids=str)
@pytest.mark.timeout(120)
def test_every_python_example_runs(block: Block, tmp_path: Path) -> None:
    """A block marked `python no-run` is only compiled; `await` may stand at the top level."""
    compile_block(block)
    if "no-run" in block.words:
        return
    prepare(tmp_path)
    script = tmp_path / "example.py"
    script.write_text(runnable(block.text), encoding="utf-8")
    ended = run([sys.executable, "-W", "error", str(script)], tmp_path)
    assert ended.returncode == 0, ended.stderr + ended.stdout


def runnable(text: str) -> str:
    """Give *text* an event loop if it awaits at the top level, as a notebook would."""
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        compile(text, "example", "exec")
    except SyntaxError:
        return (
            "import ast, asyncio, inspect\n"
            f"code = compile({text!r}, 'example', 'exec', flags={int(flags)})\n"
            "async def main():\n"
            "    result = eval(code, {'__name__': '__main__'})\n"
            "    if inspect.isawaitable(result):\n"
            "        await result\n"
            "asyncio.run(main())\n"
        )
    return text


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "EVERVEC_STATE"}
    environment["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), environment.get("PATH", "")]
    )
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def commands_of(text: str) -> Iterator[tuple[str, int]]:
    """Each `$ …` line, with the exit code that a `# exit N` at its end announces (else 0)."""
    joined = text.replace("\\\n", " ")
    for line in joined.splitlines():
        if line.startswith("$ "):
            command, _, note = line[2:].partition("  # ")
            code = re.search(r"exit (\d)", note)
            yield command.strip(), int(code[1]) if code else 0


# Commands that go on until they are interrupted: their words are checked, not their end.
ENDLESS = {"up", "worker"}
# Commands whose second word is a command as well.
GROUPS = {"jobs", "failed", "stage", "events", "model"}


def ends(words: list[str]) -> bool:
    return not (len(words) > 1 and words[1] in ENDLESS) and "--follow" not in words


@pytest.mark.parametrize("block", blocks("console"), ids=str)
@pytest.mark.timeout(300)
def test_every_evervec_command_shown_ends_as_stated(block: Block, tmp_path: Path) -> None:
    """The commands of one block run one after the other, in one folder, with one state file.

    A block marked `console no-run` only has to name commands and options that exist.
    """
    prepare(tmp_path)
    for command, expected in commands_of(block.text):
        # What a shell would do with the output is not ours to test.
        words = list(takewhile(lambda word: word not in {"|", "&&", ">"}, shlex.split(command)))
        if not words or words[0] != "evervec":
            continue
        program = [sys.executable, "-m", "evervec"]
        if "no-run" in block.words or not ends(words):
            named = words[1 : 3 if words[1] in GROUPS else 2]
            ended = run([*program, *named, "--help"], tmp_path)
            options = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert not {option for option in options if option not in ended.stdout}, command
            assert ended.returncode == 0, ended.stderr
        else:
            ended = run([*program, *words[1:]], tmp_path)
            assert ended.returncode == expected, f"{command}\n{ended.stderr}{ended.stdout}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_script_shown_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wanted = set(re.findall(r"(?<![\w/.])((?:scripts|\.ci)/\w+)", text))
    assert not {name for name in wanted if not os.access(ROOT / name, os.X_OK)}


# --- Pages that must say certain things ----------------------------------------------------------


def test_the_changelog_has_an_entry_for_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## \[{re.escape(evervec.__version__)}\]", text, re.MULTILINE)


def test_the_licence_is_there() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")


def test_the_readme_gives_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "pip install -e . && evervec up docs" in text
    assert "pip install -e '.[dev]' && scripts/test" in text


def test_the_readme_shows_python_and_commands_that_run() -> None:
    """Without one of them, the tests of examples above would pass by having nothing to do."""
    shown = {
        block.language
        for block in blocks("python", "console")
        if block.page == ROOT / "README.md" and "no-run" not in block.words
    }
    assert shown == {"python", "console"}


def promised(promise: str) -> str:
    text = (ROOT / "docs" / "guarantees.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {promise}\b.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert found, f"docs/guarantees.md has no section for {promise}"
    return found[0]


def named_in(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    }


@pytest.mark.parametrize("promise", PROMISES)
def test_every_promise_names_the_tests_that_prove_it(promise: str) -> None:
    named = re.findall(r"`((?:tests|src)/[\w/]+\.py)::(\w+)`", promised(promise))
    assert named, "no test is named"
    missing = [
        f"{path}::{name}"
        for path, name in named
        if not (ROOT / path).is_file() or name not in named_in(ROOT / path)
    ]
    assert not missing


def homes() -> dict[str, str]:
    """The table of homes in ARCHITECTURE.md: each part of the product, and what it owns."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `([\w/.]+)` \| ([^|]+) \|", text, re.MULTILINE))


def test_every_part_of_the_product_has_a_home_in_the_architecture() -> None:
    source = ROOT / "src" / "evervec"
    parts = {
        file.name + "/" if file.is_dir() else file.name
        for file in source.iterdir()
        if (file.is_dir() and any(file.glob("*.py"))) or file.suffix == ".py"
    }
    homeless = parts - homes().keys() - {"__init__.py"}
    assert not homeless


def test_the_model_of_the_protocol_compiles_where_spin_is_installed(tmp_path: Path) -> None:
    spin = shutil.which("spin")
    if spin is None:
        pytest.skip("spin is not installed; scripts/prove says how to install it")
    ended = run([spin, "-a", str(ROOT / "proofs" / "queue.pml")], tmp_path)
    assert ended.returncode == 0, ended.stdout + ended.stderr
