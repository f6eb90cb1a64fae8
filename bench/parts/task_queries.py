"""What every query about tasks takes with a million of them, for the user who has the most; `--plans` shows why."""

from typing import Any

from bench import children
from bench.ground import Ground, reason, say
from bench.million import million_on
from bench.rows import Measured, Row, limited
from bench.service import LABELS

ASK_SECONDS = 180.0
LIMIT = "< 50 ms"


def rows(ground: Ground) -> list[Row]:
    return [row for dialect in LABELS for row in rows_on(ground, dialect)]


def rows_on(ground: Ground, dialect: str) -> list[Row]:
    where = LABELS[dialect]
    try:
        service = million_on(ground, dialect)
        folder = service.environment["LONGTAKE_DATA_DIR"]
        seen: dict[str, dict[str, Any]] = children.call(
            "bench.asked:measure", ASK_SECONDS, url=service.database, folder=folder
        )
    except Exception as failure:  # noqa: BLE001 - whatever it was, it is the reason for the missing figures
        return [limited(f"queries on {where}", Measured(reason=reason(failure)), "ms", LIMIT)]
    result = []
    for name, one in seen.items():
        say(f"  {dialect}, {name}: {one['median']:.2f}, worst {one['worst']:.2f} ms")
        if ground.options.plans:
            say("".join(f"      {line}\n" for line in one["plan"]).rstrip())
        result += [
            limited(f"{name}, {where}: median", Measured(one["median"]), "ms", LIMIT),
            limited(f"{name}, {where}: worst of 20", Measured(one["worst"]), "ms", LIMIT),
        ]
    return result
