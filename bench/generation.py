"""The benchmark `generation`: the whole service against what it promises, with the sandbox for a provider."""

from collections.abc import Callable

from bench.ground import Ground, Options, measure
from bench.parts import in_flight, lane_use, open_lane, submit_lane, submits
from bench.rows import Row

PARTS: dict[str, Callable[[Ground], list[Row]]] = {
    "lane-use": lane_use.rows,
    "submit-lane": submit_lane.rows,
    "open-lane": open_lane.rows,
    "in-flight": in_flight.rows,
    "submits": submits.rows,
}


def rows(options: Options) -> list[Row]:
    return measure(options, PARTS)
