"""The benchmark `start`: how long a command takes until it has answered, and a server until it is ready."""

from collections.abc import Callable

from bench.ground import Ground, Options, measure
from bench.parts import starts
from bench.rows import Row

PARTS: dict[str, Callable[[Ground], list[Row]]] = {"commands": starts.rows}


def rows(options: Options) -> list[Row]:
    return measure(options, PARTS)
