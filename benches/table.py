"""Writes the tables in docs/benchmarks.md and docs/quality.md from the results in benches/results/.

python -m benches.table
"""

import json
from pathlib import Path
from typing import Any

from benches.quality_page import filled

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "benchmarks.md"
QUALITY = HERE.parent / "docs" / "quality.md"
BEGIN, END = "<!-- results -->", "<!-- end of results -->"


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    files = sorted((HERE / "results").glob("*.json"))
    results = [json.loads(file.read_text(encoding="utf-8")) for file in files]
    page = f"{before}{BEGIN}\n\n{table(results)}\n{END}{after}"
    PAGE.write_text(page, encoding="utf-8")
    by_name = {result["bench"]: result for result in results}
    QUALITY.write_text(filled(QUALITY.read_text(encoding="utf-8"), by_name), encoding="utf-8")


def table(results: list[dict[str, Any]]) -> str:
    """Return a row for each line of each result; the load is that of the machine at its end."""
    rows = ["| benchmark | what | measured | target | met | load |", "|---|---|--:|--:|---|--:|"]
    for result in results:
        load = result["machine"]["load"][0]
        rows += [f"| `{result['bench']}` | {row(line)} | {load} |" for line in result["lines"]]
    return "\n".join(rows) + "\n"


def row(line: dict[str, Any]) -> str:
    measured = number(line["value"], line["unit"])
    if line["target"] is None:
        return f"{line['what']} | {measured} | | "
    target = f"{line['bound']} {number(line['target'], line['unit'])}"
    return f"{line['what']} | {measured} | {target} | {'yes' if line['met'] else '**no**'}"


def number(value: float, unit: str) -> str:
    shown = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:g}"
    return f"{shown} {unit}".strip()


if __name__ == "__main__":
    main()
