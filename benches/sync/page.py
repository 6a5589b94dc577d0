"""Writes docs/sync-bench.md's table, and its charts, from the result in benches/results/sync.json.

python -m benches.sync.page
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benches.sync.svg import DASH, Bar, Panel, bars, grid

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "sync-bench.md"
IMAGES = ROOT / "docs" / "images"
RESULT = ROOT / "benches" / "results" / "sync.json"

NAMES = {
    "backfill": "Backfill",
    "nothing": "Nothing changed",
    "edit": "One paragraph edited",
    "touch": "Everything touched",
    "ten_edits": "Ten quick edits",
    "rename": "Renamed",
    "copy": "Copied",
    "lost_vectors": "Vectors lost",
    "poison": "One poison text",
    "limited": "Rate limit",
    "outage": "Outage",
    "latency": "Edit to searchable",
    "hot_key": "Hot document",
    "delete_storm": "Half deleted",
    "killed": "kill -9 half way",
}
WRONG = ("lost", "stale", "orphaned", "doubled")
Results = Mapping[str, Mapping[str, Any]]


def main() -> None:
    if not RESULT.exists():
        return
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    numbers = result["numbers"]
    text = PAGE.read_text(encoding="utf-8")
    for mark, content in (
        ("tools", tools(numbers)),
        ("results", f"{table(numbers)}\n{machine(result['machine'], numbers.get('remark', ''))}"),
        ("notes", notes(numbers)),
    ):
        begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
        before, _, rest = text.partition(begin)
        _, _, after = rest.partition(end)
        text = f"{before}{begin}\n\n{content}\n{end}{after}"
    PAGE.write_text(text, encoding="utf-8")
    IMAGES.mkdir(exist_ok=True)
    for name, drawing in charts(numbers).items():
        (IMAGES / f"sync-{name}.svg").write_text(drawing, encoding="utf-8")


def present(numbers: Mapping[str, Any]) -> list[str]:
    """Return the tools that were measured, ours first, as the result has them."""
    return [name for name in numbers["tools"] if name in numbers["scenarios"]]


def title(numbers: Mapping[str, Any], name: str) -> str:
    return str(numbers["tools"][name]["name"])


def tools(numbers: Mapping[str, Any]) -> str:
    rows = ["| tool | version | what it keeps in sync, and how it is set |", "|---|---|---|"]
    for about in numbers["tools"].values():
        if reason := about.get("not_installable"):
            rows.append(f"| {about['name']} | {DASH} | not installable: {reason} |")
        else:
            rows.append(f"| {about['name']} | {about['version']} | {about['settings']} |")
    return "\n".join(rows) + "\n"


def table(numbers: Mapping[str, Any]) -> str:
    """Return a row a scenario: the time, the texts embedded, and in bold what is wrong."""
    names = present(numbers)
    head = " | ".join(title(numbers, name) for name in names)
    rows = [f"| scenario | necessary | {head} |", "|---|--:|" + "--:|" * len(names)]
    for scenario, called in NAMES.items():
        found = [numbers["scenarios"][name][scenario] for name in names]
        # Which vectors are lost is not alike for all: the stores are laid out differently.
        needed = sorted({each["necessary"] for each in found if each["necessary"] is not None})
        ends = [f"{each:,}" for each in dict.fromkeys([*needed[:1], *needed[-1:]])]
        shown = "" if scenario in {"latency", "hot_key", "killed"} else " to ".join(ends)
        cells = " | ".join(cell(scenario, each) for each in found)
        rows.append(f"| {called} | {shown} | {cells} |")
    for key, called, unit in (
        ("resident_mb", "Memory in a backfill", "MB"),
        ("disk_mb", "On disk afterwards", "MB"),
    ):
        found = [numbers["scenarios"][name]["backfill"]["also"].get(key) for name in names]
        cells = " | ".join(DASH if each is None else f"{each:,.0f} {unit}" for each in found)
        rows.append(f"| {called} | | {cells} |")
    return "\n".join(rows) + "\n"


def machine(about: Mapping[str, Any], remark: str = "") -> str:
    """Say under which load the times were taken, and what that makes of them."""
    loads = ", ".join(f"{each:.1f}" for each in about["load"])
    busy = about["load"][-1] > about["processors"]
    calm = "the counts are exact"
    return (
        f"Python {about['python']} on {about['processors']} processors, load averages at the end"
        f" {loads}"
        + (
            f": others worked on this machine, so read the times as relations; {calm}"
            if busy
            else ""
        )
        + f". {remark}".rstrip()
        + "\n"
    )


def cell(scenario: str, result: Mapping[str, Any]) -> str:
    if result["cannot"]:
        return DASH
    parts = []
    if scenario == "latency" and "p50_ms" in result["also"]:
        parts.append(f"{result['also']['p50_ms']:,.0f} / {result['also']['p99_ms']:,.0f} ms")
    elif result["seconds"] is not None:
        parts.append(seconds(result["seconds"]))
    if scenario == "killed" and "embedded_twice" in result["also"]:
        parts.append(f"{result['also']['embedded_twice']:,.0f} twice")
    elif scenario != "latency" and result["embedded"] is not None:
        parts.append(f"{result['embedded']:,}")
    wrong = [f"{result[each]} {each}" for each in WRONG if result[each]]
    if result["failed"]:
        wrong.append("gave up" if scenario in {"limited", "outage"} else "failed")
    bold = f"<br>**{', '.join(wrong)}**" if wrong else ""
    return " · ".join(parts) + bold


def seconds(value: float) -> str:
    return f"{value:.1f} s" if value >= 10 else f"{value:.2f} s"


def notes(numbers: Mapping[str, Any]) -> str:
    """Return what the tools said of themselves where something was not as it should be."""
    told = []
    for name in present(numbers):
        for scenario, result in numbers["scenarios"][name].items():
            if result["note"]:
                plain = " ".join(str(result["note"]).split())
                told.append(f"- {title(numbers, name)}, {NAMES[scenario].lower()}: {plain}.")
    return "\n".join(told) + "\n"


def charts(numbers: Mapping[str, Any]) -> dict[str, str]:
    names = present(numbers)
    scenarios: Mapping[str, Results] = numbers["scenarios"]

    def panel(called: str, scenario: str, value: Any, text: Any) -> Panel:
        drawn = []
        for name in names:
            result = scenarios[name][scenario]
            number = value(result)
            shown = DASH if number is None else text(number)
            ours = name.startswith("evervec")
            drawn.append(Bar(title(numbers, name), number, shown, ours, wrong=not result["right"]))
        return Panel(called, drawn)

    def time_of(result: Mapping[str, Any]) -> Any:
        return result["seconds"]

    def also(key: str) -> Any:
        return lambda result: result["also"].get(key)

    small = ("edit", "touch", "ten_edits", "rename", "copy", "lost_vectors")
    return {
        "backfill": bars(
            f"Backfill of {numbers['chunks']:,} paragraphs, seconds",
            [panel("less is better", "backfill", time_of, seconds)],
        ),
        "embedded": bars(
            "Texts sent to the model and paid for (logarithmic; less is better)",
            [
                panel(NAMES[each], each, lambda result: result["embedded"], lambda n: f"{n:,}")
                for each in small
            ],
            columns=2,
            log=True,
        ),
        "fresh": bars(
            "From an edit to a search that finds it, milliseconds (logarithmic; less is better)",
            [
                panel("half of all edits within", "latency", also("p50_ms"), lambda n: f"{n:,.0f}"),
                panel("99 % within", "latency", also("p99_ms"), lambda n: f"{n:,.0f}"),
            ],
            columns=2,
            log=True,
        ),
        "wrong": grid(
            "Documents that are lost, stale or orphaned afterwards",
            [title(numbers, name) for name in names],
            [
                (NAMES[scenario], [wrong(scenarios[name][scenario]) for name in names])
                for scenario in NAMES
                if scenario != "nothing"
            ],
        ),
        "size": bars(
            "What it takes (less is better)",
            [
                panel("memory in a backfill, MB", "backfill", also("resident_mb"), _rounded),
                panel("on disk afterwards, MB", "backfill", also("disk_mb"), _rounded),
            ],
            columns=2,
        ),
    }


def wrong(result: Mapping[str, Any]) -> int | None:
    if result["cannot"] or result["lost"] is None:
        return None
    counts: Sequence[int] = [result[each] or 0 for each in ("lost", "stale", "orphaned")]
    return sum(counts)


def _rounded(value: float) -> str:
    return f"{value:,.0f}"


if __name__ == "__main__":
    main()
