"""What effects cost: each job's settlement updates one domain row and inserts one, in the finishing transaction."""

from bench import ours
from bench.ground import Ground
from bench.rows import Row, compared

CONTENDERS = {
    "postgresql": (ours.REALISTIC_ON_POSTGRESQL, ours.ON_POSTGRESQL),
    "sqlite": (ours.REALISTIC_ON_SQLITE, ours.ON_SQLITE),
}
LABELS = {"postgresql": "PostgreSQL", "sqlite": "SQLite FULL"}


def rows(ground: Ground) -> list[Row]:
    figures = ground.rounds(
        {
            f"{dialect} {label}": ground.drain_on(dialect, contender)
            for dialect, pair in CONTENDERS.items()
            for label, contender in zip(("realistic", "no-op"), pair, strict=True)
        }
    )
    return [
        compared(
            f"drain on {LABELS[dialect]}, one row updated and one inserted a job",
            figures[f"{dialect} realistic"],
            "jobs/s",
            "longtake, no-op job",
            figures[f"{dialect} no-op"],
            ">= 0.4",
        )
        for dialect in CONTENDERS
    ]
