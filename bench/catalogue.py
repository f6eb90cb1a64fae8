"""The benchmark `catalogue`: how fast titles get their posters and ids, and how well the limits of others are kept."""

from collections.abc import Callable

from bench.ground import Ground, Options, measure
from bench.parts import catalogue_fill, tmdb_lane_use
from bench.rows import Row

PARTS: dict[str, Callable[[Ground], list[Row]]] = {"lane": tmdb_lane_use.rows, "fill": catalogue_fill.rows}


def rows(options: Options) -> list[Row]:
    return measure(options, PARTS)
