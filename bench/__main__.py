"""`python -m bench NAME`: measure, print a table or JSON, keep the figures, and give the verdict as exit status.

Exit status: 0 all goals met; 1 a goal was missed or a contender could not be measured; 2 wrong usage.
"""

import argparse
import importlib
import json
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from rich.console import Console
from rich.table import Table

from bench.ground import Options, say
from bench.machine import description
from bench.rows import Row, readable

#: Every benchmark is a module with `PARTS` and `rows(options)`.
BENCHMARKS = {
    "engine": "bench.engine",
    "generation": "bench.generation",
    "delivery": "bench.delivery",
    "assets": "bench.assets",
    "scenes": "bench.scenes",
    "catalogue": "bench.catalogue",
    "start": "bench.start",
}
RESULTS = Path("bench-results")


def main() -> int:
    signal.signal(signal.SIGTERM, stop)
    name, as_json, options = parse()
    rows = importlib.import_module(BENCHMARKS[name]).rows(options)
    keep(name, options, rows)
    if as_json:
        print(json.dumps([row.as_dict() for row in rows], indent=2))
    else:
        show(name, rows)
    return 0 if rows and all(row.ok for row in rows) else 1


def stop(_number: int, _frame: FrameType | None) -> None:
    # An exception, so that servers and children are stopped on the way out.
    raise SystemExit(143)


def parse() -> tuple[str, bool, Options]:
    parser = argparse.ArgumentParser(
        prog="bench", description="Measure Longtake beside its peers.", epilog=parts_text(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("name", metavar="NAME", choices=BENCHMARKS, help=f"what to measure: {', '.join(BENCHMARKS)}")
    parser.add_argument("--json", action="store_true", help="print the rows as JSON and nothing else")
    parser.add_argument("--only", metavar="PART", action="append", default=[], help="one part; may be given again")
    parser.add_argument("--runs", type=int, default=5, help="rounds; the figure is the median (default: 5)")
    parser.add_argument("--redis", action="store_true", help="also peers on Redis; root installs the server by apt")
    parser.add_argument("--quick", action="store_true", help="a tenth of the jobs: tries the machinery, proves nothing")
    parser.add_argument("--seconds", type=float, metavar="N", help="delivery: how long events are written and read")
    parser.add_argument("--plans", action="store_true", help="delivery: also show the databases' plans of the queries")
    arguments = parser.parse_args()
    known = importlib.import_module(BENCHMARKS[arguments.name]).PARTS
    for part in arguments.only:
        if part not in known:
            parser.error(f"{arguments.name} has no part {part!r}; it has {', '.join(known)}")
    if arguments.runs < 1:
        parser.error("--runs must be 1 or more")
    if arguments.seconds is not None and not 1 <= arguments.seconds <= 60:
        parser.error("--seconds must be 1 to 60")
    options = Options(
        arguments.runs, tuple(arguments.only), arguments.redis, arguments.quick, arguments.seconds, arguments.plans
    )
    return arguments.name, arguments.json, options


def parts_text() -> str:
    lines = [
        f"parts of {name}: {', '.join(importlib.import_module(module).PARTS)}" for name, module in BENCHMARKS.items()
    ]
    return "\n".join([*lines, "", f"The figures are also written to {RESULTS}/NAME.json, with the machine."])


def keep(name: str, options: Options, rows: list[Row]) -> None:
    RESULTS.mkdir(exist_ok=True)
    document = {
        "benchmark": name,
        "measured_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": description(),
        "runs": options.runs,
        "quick": options.quick,
        "rows": [row.as_dict() for row in rows],
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps(document, indent=2) + "\n")
    say(f"Written to {path}.")


def show(name: str, rows: list[Row]) -> None:
    table = Table(title=f"bench {name}", caption=", ".join(f"{key} {value}" for key, value in description().items()))
    for heading in ("what", "value", "unit", "peer", "its value", "ratio", "goal", ""):
        table.add_column(heading, justify="right" if heading in {"value", "its value", "ratio"} else "left")
    for row in rows:
        figures = [readable(figure) for figure in (row.value, row.peer_value, row.ratio)]
        verdict = "[green]ok[/]" if row.ok else "[red]missed[/]"
        table.add_row(row.name, figures[0], row.unit, row.peer or "–", *figures[1:], row.goal or "–", verdict)
    # Into a file or a pipe nothing may be cut off.
    Console(width=None if sys.stdout.isatty() else 200).print(table)


if __name__ == "__main__":
    sys.exit(main())
