"""How long `evervec --help` takes: nothing heavy may be imported for it. Best of ten.

python -m benches.help [--repeats 10]
"""

import argparse
import subprocess
import sys
import time

from benches.report import Line, report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    wanted = parser.parse_args()
    told = [timed([sys.executable, "-m", "evervec", "--help"]) for _ in range(wanted.repeats)]
    bare = [timed([sys.executable, "-c", "pass"]) for _ in range(wanted.repeats)]
    report(
        "help",
        [Line("evervec --help, best of ten", round(min(told), 1), "ms", 100.0)],
        bare_python_ms=round(min(bare), 1),
        all_ms=[round(each, 1) for each in told],
    )


def timed(command: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - begun) * 1000


if __name__ == "__main__":
    main()
