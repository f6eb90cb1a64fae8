"""Progress on standard error: bars that count, and views that are redrawn while something changes."""

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

from rich.console import Console, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")

BAR_WIDTH = 30


@contextlib.contextmanager
def counting_bar(name: str, total: int, *, least: int = 1, in_pipes: bool = False) -> Iterator[Callable[[int], None]]:
    """Show how many of `total` are done; yield the function that adds to the count.

    For fewer than `least` there is no bar. Without a terminal only the last state is printed, and only if `in_pipes`.
    """
    console = Console(stderr=True)
    hidden = total < least or not (in_pipes or console.is_terminal)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=hidden) as progress:
        task = progress.add_task(name, total=total)
        yield lambda count: progress.advance(task, count)


@contextlib.contextmanager
def live_view(
    draw: Callable[[T], RenderableType], state: T, *, frames_per_second: int
) -> Iterator[Callable[[T], None]]:
    """Redraw the state several times a second; yield the function that replaces it."""
    lock = threading.Lock()

    def picture() -> RenderableType:
        with lock:
            return draw(state)

    def show(changed: T) -> None:
        nonlocal state
        with lock:
            state = changed

    console = Console(stderr=True, highlight=False, markup=False, emoji=False)
    with Live(get_renderable=picture, console=console, refresh_per_second=frames_per_second):
        yield show
