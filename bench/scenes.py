"""The benchmark `scenes`: how soon a run of scene images is on its way."""

from collections.abc import Callable

from bench.ground import Ground, Options, measure
from bench.parts import advances
from bench.rows import Row

PARTS: dict[str, Callable[[Ground], list[Row]]] = {"advance": advances.rows}


def rows(options: Options) -> list[Row]:
    return measure(options, PARTS)
