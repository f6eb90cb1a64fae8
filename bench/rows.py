"""One measured figure and its verdict.

A row has the same eight keys whether it is printed or stored. A contender that could not be measured keeps its row:
the figure is null, the reason stands behind its name, and the verdict is false.
"""

import operator
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass

COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True)
class Row:
    """`ratio` is value / peer_value; `goal` speaks of the ratio where there is a peer, else of the value."""

    name: str
    value: float | None
    unit: str
    peer: str | None
    peer_value: float | None
    ratio: float | None
    goal: str | None
    ok: bool

    def as_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Measured:
    """A figure, or the reason why there is none."""

    value: float | None = None
    reason: str | None = None

    def named(self, name: str) -> str:
        return name if self.reason is None else f"{name} (not measured: {self.reason})"


def meets(goal: str, figure: float) -> bool:
    """Judge a goal such as `>= 1.2` or `<= 5 ms`; what follows the number is for the reader."""
    match = re.match(r"(>=|<=|>|<) ([0-9.]+)", goal)
    if match is None:
        raise ValueError(f"A goal reads like '>= 1.2', not {goal!r}.")
    return COMPARISONS[match[1]](figure, float(match[2]))


def compared(name: str, ours: Measured, unit: str, peer: str, theirs: Measured, goal: str | None) -> Row:
    """A figure beside a peer's; without a goal it is there to be read, and only an absence is a failure."""
    ratio = ours.value / theirs.value if ours.value is not None and theirs.value else None
    return Row(
        name=ours.named(name),
        value=rounded(ours.value),
        unit=unit,
        peer=theirs.named(peer),
        peer_value=rounded(theirs.value),
        ratio=rounded(ratio),
        goal=goal,
        ok=ratio is not None and (goal is None or meets(goal, ratio)),
    )


def limited(name: str, ours: Measured, unit: str, goal: str | None) -> Row:
    """A figure with a limit of its own, or none."""
    ok = ours.value is not None and (goal is None or meets(goal, ours.value))
    return Row(ours.named(name), rounded(ours.value), unit, None, None, None, goal, ok)


def rounded(figure: float | None) -> float | None:
    """Four significant digits: more would claim a precision that no shared machine has."""
    return None if figure is None else float(f"{figure:.4g}")


def readable(figure: float | None) -> str:
    if figure is None:
        return "–"
    return f"{figure:,.0f}" if abs(figure) >= 1_000 else f"{figure:.4g}"
