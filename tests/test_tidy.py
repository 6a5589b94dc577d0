"""The rules of CONTRIBUTING.md that no linter has."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "evervec"
TESTS = ROOT / "tests"

FUNCTION_LINES_MAX = 50
MODULE_LINES_MAX = 400
PORT_METHODS_MAX = 12
# May shrink, never grow. The ports are one contract, and half of it is docstrings: a reader of one
# port needs the values of the others beside it.
# A conformance suite is a list of tests; its length is the length of the contract.
LONGER = {"ports.py": 490, "testing/queue_suite.py": 1320, "testing/store_suite.py": 670}

# Names that say nothing about what is inside.
BANNED = {"util", "utils", "helper", "helpers", "manager", "base", "common", "misc"}

# The only module that may put a name into a statement: a user's own table and columns cannot be
# bound as parameters, so they are quoted there, in one function.
QUOTING = SOURCE / "sources" / "sqlite" / "names.py"

TEXT_SUFFIXES = {".py", ".md", ".sql", ".toml", ".txt", ".lock", ".pml", ".cfg", ".yml", ".yaml"}
# This file has to spell out what it looks for.
SPELLS_IT_OUT = {Path(__file__).resolve()}


def python_files(*folders: Path) -> list[Path]:
    return sorted(file for folder in folders for file in folder.rglob("*.py"))


def repository_text() -> Iterator[tuple[Path, str]]:
    """Every text file that belongs to the repository, wherever it lies."""
    skipped = {".git", ".venv", "build", "dist", "__pycache__"}
    for file in sorted(ROOT.rglob("*")):
        parts = file.relative_to(ROOT).parts
        hidden = any(part in skipped or part.endswith(("_cache", ".egg-info")) for part in parts)
        script = file.parent.name in {"scripts", ".ci"}
        if hidden or ".hypothesis" in parts or not file.is_file() or file in SPELLS_IT_OUT:
            continue
        if script or file.suffix in TEXT_SUFFIXES:
            yield file, file.read_text(encoding="utf-8", errors="replace")


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def at(file: Path, line: int) -> str:
    return f"{file.relative_to(ROOT)}:{line}"


def lines_matching(pattern: str, texts: Iterator[tuple[Path, str]]) -> list[str]:
    wanted = re.compile(pattern)
    return [
        f"{at(file, number)}: {line.strip()}"
        for file, text in texts
        for number, line in enumerate(text.splitlines(), 1)
        if wanted.search(line)
    ]


def texts_of(*folders: Path) -> Iterator[tuple[Path, str]]:
    for file in python_files(*folders):
        if file not in SPELLS_IT_OUT:
            yield file, file.read_text(encoding="utf-8")


def test_a_function_fits_on_a_screen() -> None:
    long = [
        f"{at(file, node.lineno)}: {node.name} has {node.end_lineno - node.lineno + 1} lines"
        for file in python_files(SOURCE)
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.end_lineno is not None
        and node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX
    ]
    assert not long


def test_a_module_has_one_subject_and_ends() -> None:
    sizes = {
        str(file.relative_to(SOURCE)): len(file.read_text(encoding="utf-8").splitlines())
        for file in python_files(SOURCE)
    }
    assert not {
        name: lines for name, lines in sizes.items() if lines > LONGER.get(name, MODULE_LINES_MAX)
    }


def test_a_port_is_small_enough_to_be_written_again() -> None:
    sizes = {
        port.name: sum(
            isinstance(part, ast.AsyncFunctionDef | ast.FunctionDef) for part in port.body
        )
        for port in ast.walk(tree_of(SOURCE / "ports.py"))
        if isinstance(port, ast.ClassDef)
    }
    assert not {name: methods for name, methods in sizes.items() if methods > PORT_METHODS_MAX}


def test_every_module_says_what_it_is_for() -> None:
    def silent(file: Path) -> bool:
        tree = tree_of(file)
        return bool(tree.body) and not ast.get_docstring(tree)

    # A folder of migrations is data; its empty __init__.py only makes it loadable.
    assert not [at(file, 1) for file in python_files(SOURCE, TESTS) if silent(file)]


def test_names_say_which_thing_it_is() -> None:
    def words(name: str) -> set[str]:
        return {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}

    modules = [at(file, 1) for file in python_files(SOURCE, TESTS) if words(file.stem) & BANNED]
    packages = [str(d) for d in SOURCE.rglob("*") if d.is_dir() and words(d.name) & BANNED]
    classes = [
        f"{at(file, node.lineno)}: {node.name}"
        for file in python_files(SOURCE)
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.ClassDef) and words(node.name) & BANNED
    ]
    assert not modules + packages + classes


def test_the_type_checker_is_never_told_to_look_away() -> None:
    assert not lines_matching(r"#\s*(type:\s*ignore|mypy:|pyright:)", texts_of(SOURCE, TESTS))


def test_a_lint_exception_gives_its_rule_and_its_reason() -> None:
    """`# noqa: S311  # a seed must replay` is fine; a bare one hides whatever comes next."""
    assert not lines_matching(
        r"#\s*noqa(?!: [A-Z]+\d+(, ?[A-Z]+\d+)*\s+(#|-|—)?\s*\w)", texts_of(SOURCE, TESTS)
    )


def test_nothing_is_left_for_later() -> None:
    assert not lines_matching(r"\b(TODO|FIXME|XXX)\b", repository_text())


# --- SQL -----------------------------------------------------------------------------------------


def strings_in(tree: ast.AST) -> set[str]:
    return {
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def named_statements(file: Path) -> list[str]:
    return re.findall(r"^-- name: (\w+)$", file.read_text(encoding="utf-8"), re.MULTILINE)


def sql_files() -> list[Path]:
    """The files of named statements; migrations have no names, since each is run whole."""
    return [file for file in sorted(SOURCE.rglob("*.sql")) if file.parent.name != "schema"]


def loads(node: ast.AST, sql: Path) -> bool:
    return (
        isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] == "statements"
        and sql.name in strings_in(node)
        and module_of(sql.parent) in strings_in(node)
    )


def module_of(file: Path) -> str:
    return ".".join(file.relative_to(SOURCE.parent).with_suffix("").parts)


def names_bound(file: Path, sql: Path) -> set[str]:
    """The names under which *file* itself loads the statements of *sql*."""
    bound = {
        ast.unparse(target)
        for node in tree_of(file).body
        if isinstance(node, ast.Assign) and any(loads(part, sql) for part in ast.walk(node.value))
        for target in node.targets
    }
    # The quoting module hands statements out through its functions.
    return bound | set(functions_in(file)) if bound and file == QUOTING else bound


def functions_in(file: Path) -> list[str]:
    return [node.name for node in tree_of(file).body if isinstance(node, ast.FunctionDef)]


@cache
def users_of(sql: Path) -> dict[Path, set[str]]:
    """The files that see the statements of *sql*, and the names by which they do."""
    users = {file: bound for file in python_files(SOURCE) if (bound := names_bound(file, sql))}
    offered = {module_of(file): bound for file, bound in users.items()}
    for file in python_files(SOURCE):
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.ImportFrom) and node.module is not None:
                for alias in node.names:
                    local = alias.asname or alias.name
                    if alias.name in offered.get(node.module, ()):
                        users.setdefault(file, set()).add(local)
                    for name in offered.get(f"{node.module}.{alias.name}", ()):
                        users.setdefault(file, set()).add(f"{local}.{name}")
    return users


def statements_used(file: Path, names: set[str]) -> set[str]:
    """The names that *file* looks up in, or asks for from, one of *names*."""

    def asked(node: ast.AST) -> tuple[ast.expr, ast.expr] | None:
        if isinstance(node, ast.Subscript):
            return node.value, node.slice
        templates = {"fill", "each"} & names
        if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in templates:
            return node.func, node.args[0]
        return None

    return {
        name.value
        for node in ast.walk(tree_of(file))
        if (lookup := asked(node)) is not None
        for place, name in [lookup]
        if isinstance(name, ast.Constant)
        and isinstance(name.value, str)
        and ast.unparse(place) in names
    }


@pytest.mark.parametrize("sql", sql_files(), ids=lambda file: str(file.relative_to(SOURCE)))
def test_every_statement_is_named_once_and_used(sql: Path) -> None:
    names = named_statements(sql)
    assert len(names) == len(set(names)), "a name is given twice"
    users = users_of(sql)
    assert users, "no module loads this file"
    mentioned = set().union(*(strings_in(tree_of(file)) for file in users))
    unused = set(names) - mentioned
    assert not unused


@pytest.mark.parametrize("sql", sql_files(), ids=lambda file: str(file.relative_to(SOURCE)))
def test_every_statement_that_is_used_exists(sql: Path) -> None:
    used = set().union(*(statements_used(file, names) for file, names in users_of(sql).items()))
    undefined = used - set(named_statements(sql))
    assert not undefined


def test_sql_is_lower_case() -> None:
    upper = r"^[^-']*\b(SELECT|INSERT|UPDATE|DELETE|FROM|WHERE|CREATE|TABLE|VALUES)\b"
    texts = ((file, file.read_text(encoding="utf-8")) for file in sorted(SOURCE.rglob("*.sql")))
    assert not lines_matching(upper, texts)


STATEMENT = re.compile(
    r"\b(select\b.+\bfrom|insert\s+(or\s+\w+\s+)?into|update\b.+\bset|delete\s+from|"
    r"create\s+(unique\s+)?(table|index|trigger|view)|drop\s+(table|index|trigger|view)|"
    r"alter\s+table)\b",
    re.IGNORECASE | re.DOTALL,
)


def built_sql(file: Path) -> Iterator[str]:
    # An error may show a statement to a person; nothing runs it.
    shown = {
        part
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Raise)
        for part in ast.walk(node)
    }
    for node in ast.walk(tree_of(file)):
        if node in shown:
            continue
        if isinstance(node, ast.JoinedStr):
            parts = [str(part.value) for part in node.values if isinstance(part, ast.Constant)]
            dynamic = len(parts) < len(node.values)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Mod):
            parts = sorted(strings_in(node))
            dynamic = True
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".format"):
            parts = sorted(strings_in(node.func))
            dynamic = True
        else:
            continue
        if dynamic and STATEMENT.search(" ".join(parts)):
            yield at(file, node.lineno)


def test_sql_is_never_built_from_strings() -> None:
    built = [place for file in python_files(SOURCE) if file != QUOTING for place in built_sql(file)]
    assert not built


# --- Errors, faults, acceptance ------------------------------------------------------------------


def classes_in(file: Path) -> list[str]:
    return [node.name for node in tree_of(file).body if isinstance(node, ast.ClassDef)]


def raised_in(*folders: Path) -> set[str]:
    """Names that are raised, or made to be raised or returned elsewhere."""
    return {
        ast.unparse(node.func).split(".")[-1]
        for file in python_files(*folders)
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call)
    }


def names_in(*folders: Path) -> set[str]:
    nodes = (node for file in python_files(*folders) for node in ast.walk(tree_of(file)))
    return {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in nodes
        if isinstance(node, ast.Name | ast.Attribute)
    }


def errors() -> set[str]:
    return set(classes_in(SOURCE / "errors.py")) - {"EvervecError"}


def test_every_error_is_raised_by_the_product() -> None:
    never = errors() - raised_in(SOURCE)
    assert not never


def test_every_error_is_asserted_by_a_test() -> None:
    # The conformance suites ship with the product and are tests as well.
    never = errors() - names_in(TESTS, SOURCE / "testing")
    assert not never


def test_every_fault_label_is_passed_by_the_product() -> None:
    from evervec.faults import LABELS

    assert len(set(LABELS)) == len(LABELS)
    product = [file for file in python_files(SOURCE) if file.name != "faults.py"]
    mentioned = " ".join(s for file in product for s in strings_in(tree_of(file)))
    # `queue.put` given to a writing transaction passes both `queue.put.commit` and `….done`.
    stems = {label.removesuffix(".commit").removesuffix(".done") for label in LABELS}
    missing = {stem for stem in stems if not re.search(rf"\b{re.escape(stem)}\b", mentioned)}
    assert not missing


def test_no_fault_label_is_unknown() -> None:
    from evervec.faults import LABELS

    passed = {
        node.args[0].value
        for file in python_files(SOURCE)
        # A simulated world has places of its own.
        if file.name != "faults.py" and SOURCE / "testing" not in file.parents
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] == "reach"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    unknown = passed - set(LABELS)
    assert not unknown


def marks() -> Iterator[tuple[Path, ast.Call]]:
    for file in python_files(TESTS, SOURCE / "testing"):
        for node in ast.walk(tree_of(file)):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("mark.accepts"):
                yield file, node


def test_every_acceptance_mark_names_rows() -> None:
    def valid(argument: ast.expr) -> bool:
        return isinstance(argument, ast.Constant) and bool(
            re.fullmatch(r"(00[0-4]-\d{2,3}|R-\d{2})", str(argument.value))
        )

    wrong = [
        f"{at(file, call.lineno)}: {ast.unparse(call)}"
        for file, call in marks()
        if not call.args or call.keywords or not all(map(valid, call.args))
    ]
    assert not wrong


# --- What must not be in the repository ----------------------------------------------------------


def test_no_path_of_somebody_s_machine() -> None:
    places = r"""(?<![\w.~$}/-])/(work|tmp|root|opt|mnt|Users/\w+|home/\w+)(/|\b(?!["'`]?\s*:))"""
    assert not lines_matching(places, repository_text())


def test_no_package_index_is_named() -> None:
    """Where packages come from is a matter of the machine, not of the project."""
    assert not lines_matching(
        r"(?i)(--(extra-)?index-url|--find-links|--trusted-host|pypi\.org|pythonhosted|/simple/?\b)",
        repository_text(),
    )


def test_no_test_depends_on_the_calendar() -> None:
    dates = r"\b20[0-9]{2}-[01][0-9]-[0-3][0-9]\b|\b(datetime|date)\(20\d\d,"
    assert not lines_matching(dates, texts_of(TESTS))


def polls(function: ast.AST) -> bool:
    return isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) and (
        function.name == "until" or function.name.startswith("until_")
    )


def sleeps(node: ast.AST, names: set[str]) -> Iterator[int]:
    for child in ast.iter_child_nodes(node):
        if polls(child):
            continue
        # `sleep(0)` gives the other tasks a turn; it waits for nothing.
        if (
            isinstance(child, ast.Call)
            and ast.unparse(child.func) in names
            and [ast.unparse(argument) for argument in child.args] != ["0"]
        ):
            yield child.lineno
        yield from sleeps(child, names)


def test_no_test_sleeps() -> None:
    """A test waits for a condition, in a polling function called `until` or `until_…`."""

    def names(file: Path) -> set[str]:
        # In a simulated world an hour passes at once, and sleeping is what actors do.
        virtual = (TESTS / "simulation") in file.parents
        real = {"time.sleep", "sleep"}
        return real if virtual else real | {"asyncio.sleep", "anyio.sleep"}

    assert not [
        at(file, line)
        for file in python_files(TESTS)
        for line in sleeps(tree_of(file), names(file))
    ]


def test_no_error_is_swallowed() -> None:
    def swallows(node: ast.ExceptHandler) -> bool:
        broad = node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"}
        quiet = all(
            isinstance(step, ast.Pass | ast.Continue)
            or (isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant))
            for step in node.body
        )
        return broad and quiet

    swallowed = [
        at(file, node.lineno)
        for file in python_files(SOURCE, TESTS)
        # The simulator kills actors; what a dying actor says is of no interest to anybody.
        if file != SOURCE / "testing" / "simulation.py"
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.ExceptHandler) and swallows(node)
    ]
    suppressed = [
        at(file, node.lineno)
        for file in python_files(SOURCE)
        for node in ast.walk(tree_of(file))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).split(".")[-1] == "suppress"
        and {"Exception", "BaseException"} & set(map(ast.unparse, node.args))
    ]
    assert not swallowed + suppressed


# --- Names that users see ------------------------------------------------------------------------


def public_names() -> list[str]:
    tree = tree_of(SOURCE / "__init__.py")
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(node.value)
            return names
    return [
        alias.asname or alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if not (alias.asname or alias.name).startswith("_")
    ]


def test_every_public_name_is_documented() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    written = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    missing = [
        name
        for name in public_names()
        if not name.startswith("__") and not re.search(rf"\b{re.escape(name)}\b", written)
    ]
    assert not missing
