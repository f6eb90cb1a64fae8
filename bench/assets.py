"""The benchmark `assets`: how soon finished media have a thumbnail, and what thumbnails and copies cost."""

from collections.abc import Callable

from bench.ground import Ground, Options, measure
from bench.parts import mirror_speed, thumbnail_bytes, thumbnail_delay, thumbnail_rate
from bench.rows import Row

PARTS: dict[str, Callable[[Ground], list[Row]]] = {
    "thumbnail-delay": thumbnail_delay.rows,
    "thumbnail-rate": thumbnail_rate.rows,
    "thumbnail-bytes": thumbnail_bytes.rows,
    "mirror": mirror_speed.rows,
}


def rows(options: Options) -> list[Row]:
    return measure(options, PARTS)
