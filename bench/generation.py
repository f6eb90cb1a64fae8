"""The benchmark `generation`: the whole service against what it promises, with the sandbox for a provider."""

from collections.abc import Callable
from contextlib import ExitStack

from bench.ground import Ground, Options, say
from bench.parts import in_flight, lane_use, open_lane, submits
from bench.rows import Row

PARTS: dict[str, Callable[[Ground], list[Row]]] = {
    "lane-use": lane_use.rows,
    "open-lane": open_lane.rows,
    "in-flight": in_flight.rows,
    "submits": submits.rows,
}


def rows(options: Options) -> list[Row]:
    measured: list[Row] = []
    with ExitStack() as stack:
        ground = Ground(options, stack)
        for part, measure in PARTS.items():
            if not options.only or part in options.only:
                say(f"{part} …")
                measured.extend(measure(ground))
    return measured
