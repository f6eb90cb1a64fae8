"""The options of a sandbox, most of which can change while it runs, and its rate limits."""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass, field

#: Seconds that a generation takes. Names of models may be added as keys.
SECONDS = {"image": 2.0, "video": 5.0}
MOST_TITLES = 20_000
FASTSTART = ("half", "yes", "no")


@dataclass(frozen=True, slots=True)
class Limit:
    """A rate limit: at most ``count`` calls in any window of ``seconds``."""

    count: int
    seconds: float

    @classmethod
    def parse(cls, text: str) -> Limit:
        """Parse ``20/10`` as 20 calls in 10 seconds; raise ValueError for anything else."""
        count, _, seconds = text.partition("/")
        limit = cls(int(count), float(seconds or 1))
        if limit.count < 1 or limit.seconds <= 0:
            raise ValueError(text)
        return limit

    def __str__(self) -> str:
        return f"{self.count}/{self.seconds:g}"


@dataclass(slots=True)
class Options:
    """The options of one sandbox. They may change between two requests."""

    host: str = "127.0.0.1"
    port: int = 8090
    #: Keys that are accepted. Empty: any non-empty key is.
    keys: frozenset[str] = frozenset()
    seconds: dict[str, float] = field(default_factory=lambda: dict(SECONDS))
    #: A generation's duration varies by this share up and down, depending on its id.
    spread: float = 0.5
    instant: bool = False
    submit_limit: Limit | None = None
    query_limit: Limit | None = None
    tmdb_limit: Limit | None = Limit(40, 1.0)
    #: How many titles Bangumi has.
    titles: int = 200
    #: How long a file's URL works.
    url_seconds: float = 24 * 3600.0
    webhook_key: str = ""
    seed: int = 0
    #: Whether an MP4 has its index in front: always, never, or for half of the prompts.
    faststart: str = "half"
    state: str = ""
    #: How many calls the log keeps.
    calls: int = 500_000
    quiet: bool = False

    def duration(self, model: str, kind: str) -> float:
        """Return the average duration of the model, or else of its kind."""
        return self.seconds.get(model, self.seconds.get(kind, 0.0))


class RateLimiter:
    """An exact sliding window for each key. Refused calls do not count."""

    def __init__(self) -> None:
        self._times: defaultdict[str, deque[float]] = defaultdict(deque)

    def admit(self, key: str, limit: Limit | None, now: float) -> bool:
        """Return whether a call is within the limit, and count it if so."""
        if limit is None:
            return True
        times = self._times[key]
        while times and times[0] <= now - limit.seconds:
            times.popleft()
        if len(times) >= limit.count:
            return False
        times.append(now)
        return True

    def wait(self, key: str, limit: Limit, now: float) -> float:
        """Return the seconds until the next call is within the limit."""
        times = self._times[key]
        return max(times[0] + limit.seconds - now, 0.0) if len(times) >= limit.count else 0.0
