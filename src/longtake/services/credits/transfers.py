"""Transfers: each is written with its two entries, the balance they change, and an event. Users can list theirs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from sqlalchemy import BigInteger, Column, Integer, Row, Table, Text, select
from sqlalchemy.dialects import postgresql, sqlite

from longtake.db import Transaction
from longtake.db.dialects import NOW, SQLITE, Identifier, Instant
from longtake.engine.events import TOPIC, append_events
from longtake.engine.queries import plain
from longtake.engine.queue_postgresql import arrays
from longtake.engine.tables import metadata
from longtake.services.credits.errors import InsufficientCredits, InvalidAmount, TooManyTasks

credit_transfers = Table(
    "credit_transfers",
    metadata,
    Column("id", Identifier, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("task_id", Identifier),
    Column("amount", BigInteger, nullable=False),
    Column("reason", Text, nullable=False),
    Column("made_by", Text),
    Column("reference", Text),
    Column("request_id", Text),
    Column("at", Instant, nullable=False),
)

#: Users' balances, kept beside the entries. The program's own accounts have no row: every transfer would wait for it.
credit_balances = Table(
    "credit_balances",
    metadata,
    Column("user_id", Text, primary_key=True),
    Column("available", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False),
    #: As many holds of the user are open: a submit need not count them.
    Column("open_holds", Integer, nullable=False),
    Column("changed_at", Instant, nullable=False),
)


@dataclass(frozen=True, slots=True)
class Balance:
    """What a user can spend, and what running tasks hold."""

    available: int
    held: int


@dataclass(frozen=True, slots=True)
class Change:
    """What is added to a balance, and to the number of the user's open holds."""

    available: int
    held: int
    holds: int


def balance(tx: Transaction, user_id: str) -> Balance:
    """Return the user's balance; a user without a row never had any credits."""
    query = select(credit_balances.c.available, credit_balances.c.held).where(credit_balances.c.user_id == user_id)
    row = tx.execute(query).first()
    return Balance(0, 0) if row is None else Balance(row.available, row.held)


def open_balance(tx: Transaction, user_id: str) -> None:
    """Create an empty balance for the user if there is none yet."""
    dialect = sqlite if tx.dialect == SQLITE else postgresql
    new = dialect.insert(credit_balances).values(user_id=user_id, available=0, held=0, open_holds=0, changed_at=NOW)
    tx.execute(new.on_conflict_do_nothing())


def refusal(tx: Transaction, user_id: str, change: Change, most_holds: int) -> InsufficientCredits | TooManyTasks:
    """Return why the balance was not changed."""
    open_holds = select(credit_balances.c.open_holds).where(credit_balances.c.user_id == user_id)
    if (tx.execute(open_holds).scalar() or 0) + change.holds > most_holds:
        return TooManyTasks(
            f"One user may have {most_holds:,} unfinished tasks. Wait until some have ended.", limit=most_holds
        )
    now, price = balance(tx, user_id), -change.available
    return InsufficientCredits(
        f"{price:,} credits are needed and {now.available:,} are available.", balance=now.available, price=price
    )


AMOUNT_LIMIT = 10**12
#: The most credits one user can have, far below what 64 bits hold.
BALANCE_LIMIT = 10**15
#: What the column can count.
HOLDS_LIMIT = 2**31 - 1

#: The account each kind of transfer takes from, and the one it goes to.
WAYS = {
    "grant": ("issued", "available"),
    "hold": ("available", "held"),
    "capture": ("held", "earned"),
    "release": ("held", "available"),
    "refund": ("earned", "available"),
    "withdraw": ("available", "issued"),
}
USER_ACCOUNTS = ("available", "held")
COLUMNS = ("id", "kind", "user_id", "task_id", "amount", "reason", "made_by", "reference", "request_id")
_columns = attrgetter(*COLUMNS)

LOCK_POSTGRESQL = "SELECT FROM credit_balances WHERE user_id = ANY(%s::text[]) ORDER BY user_id FOR UPDATE"

# A balance that may not change gets no row in `changed`, and none of its transfers is written.
POST_POSTGRESQL = """
WITH given AS (
    SELECT * FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::uuid[], %s::bigint[], %s::text[], %s::text[],
                         %s::text[], %s::text[], %s::text[], %s::text[])
        AS given(id, kind, user_id, task_id, amount, reason, made_by, reference, request_id, origin, target)
), changed AS (
    UPDATE credit_balances AS balance SET available = balance.available + change.available,
        held = balance.held + change.held, open_holds = balance.open_holds + change.holds, changed_at = longtake_now()
    FROM unnest(%s::text[], %s::bigint[], %s::bigint[], %s::int[]) AS change(user_id, available, held, holds)
    WHERE balance.user_id = change.user_id AND balance.available + change.available >= 0
      AND (change.holds <= 0 OR balance.open_holds + change.holds <= %s)
    RETURNING balance.user_id, balance.available, balance.held
), paid AS (
    SELECT given.*, changed.available, changed.held FROM given JOIN changed ON changed.user_id = given.user_id
), written AS (
    INSERT INTO credit_transfers (id, kind, user_id, task_id, amount, reason, made_by, reference, request_id)
    SELECT id, kind, user_id, task_id, amount, reason, made_by, reference, request_id FROM paid
), entered AS (
    INSERT INTO credit_entries (transfer_id, account, user_id, amount)
    SELECT id, origin, CASE WHEN origin IN ('available', 'held') THEN user_id END, -amount FROM paid
    UNION ALL
    SELECT id, target, CASE WHEN target IN ('available', 'held') THEN user_id END, amount FROM paid
), told AS (
    INSERT INTO events (type, subject, user_id, data)
    SELECT 'credits.changed', coalesce(task_id, id)::text, user_id,
           jsonb_build_object('kind', kind, 'amount', amount, 'available', available, 'held', held) FROM paid
)
SELECT user_id, available, held FROM changed
"""

CHANGE_SQLITE = """
UPDATE credit_balances SET available = available + ?2, held = held + ?3, open_holds = open_holds + ?4,
    changed_at = longtake_now()
WHERE user_id = ?1 AND available + ?2 >= 0 AND (?4 <= 0 OR open_holds + ?4 <= ?5)
RETURNING user_id, available, held
"""

TRANSFER_SQLITE = """
INSERT INTO credit_transfers (id, kind, user_id, task_id, amount, reason, made_by, reference, request_id, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, longtake_now())
"""

ENTRY_SQLITE = "INSERT INTO credit_entries (transfer_id, account, user_id, amount) VALUES (?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Credits that move from one account to another. The amount is never negative; the kind gives the direction."""

    id: str
    kind: str
    user_id: str
    amount: int
    task_id: str | None = None
    reason: str = ""
    made_by: str | None = None
    reference: str | None = None
    request_id: str | None = None

    @property
    def change(self) -> Balance:
        """The change to the user's balance."""
        origin, target = WAYS[self.kind]
        available, held = (((target == one) - (origin == one)) * self.amount for one in USER_ACCOUNTS)
        return Balance(available, held)


def check_amount(amount: int, *, least: int = 1) -> None:
    """Raise InvalidAmount unless the amount is a whole number in range; fractions and booleans are refused."""
    if type(amount) is not int or not least <= amount <= AMOUNT_LIMIT:
        raise InvalidAmount(f"The amount is {amount!r}; it must be a whole number from {least} to {AMOUNT_LIMIT:,}.")


def post(
    tx: Transaction,
    transfers: Sequence[Transfer],
    holds: Mapping[str, int] | None = None,
    *,
    most_holds: int = HOLDS_LIMIT,
) -> None:
    """Write the transfers with their entries, balances and events, and count the holds that users open or end.

    Raises InsufficientCredits or TooManyTasks. The condition of the UPDATE decides, not an earlier read: the second of
    two spenders sees what the first left.
    """
    changes = _changes(transfers, holds or {})
    if not changes:
        return
    write = _post_sqlite if tx.dialect == SQLITE else _post_postgresql
    after = write(tx, transfers, changes, most_holds)
    for user_id, change in changes.items():
        if user_id not in after:
            raise refusal(tx, user_id, change, most_holds)
        if after[user_id].available > BALANCE_LIMIT:
            raise InvalidAmount(f"A user cannot have more than {BALANCE_LIMIT:,} credits.")
    if transfers:
        tx.signal(TOPIC)


def _changes(transfers: Sequence[Transfer], holds: Mapping[str, int]) -> dict[str, Change]:
    """Return the sum of each user's changes, in the order of user ids."""
    by_user: dict[str, list[Balance]] = {user_id: [] for user_id in holds}
    for one in transfers:
        by_user.setdefault(one.user_id, []).append(one.change)
    return {
        user_id: Change(sum(one.available for one in mine), sum(one.held for one in mine), holds.get(user_id, 0))
        for user_id, mine in sorted(by_user.items())
    }


def _post_postgresql(
    tx: Transaction, transfers: Sequence[Transfer], changes: Mapping[str, Change], most_holds: int
) -> dict[str, Balance]:
    if len(changes) > 1:
        # An UPDATE of many rows locks them in any order, so that two batches could deadlock.
        tx.sql(LOCK_POSTGRESQL, arrays([(user_id,) for user_id in changes]))
    rows = arrays([(*_columns(one), *WAYS[one.kind]) for one in transfers]) or ["{}"] * (len(COLUMNS) + 2)
    rows += arrays([(user_id, one.available, one.held, one.holds) for user_id, one in changes.items()])
    return {user_id: Balance(*rest) for user_id, *rest in tx.sql(POST_POSTGRESQL, [*rows, most_holds])}


def _post_sqlite(
    tx: Transaction, transfers: Sequence[Transfer], changes: Mapping[str, Change], most_holds: int
) -> dict[str, Balance]:
    after: dict[str, Balance] = {}
    for user_id, one in changes.items():
        rows = tx.sql(CHANGE_SQLITE, (user_id, one.available, one.held, one.holds, most_holds))
        if not rows:
            return after
        after[user_id] = Balance(*rows[0][1:])
    tx.sql_many(TRANSFER_SQLITE, [_columns(one) for one in transfers])
    tx.sql_many(ENTRY_SQLITE, [entry for one in transfers for entry in _entries(one)])
    append_events(tx, [_event(one, after[one.user_id]) for one in transfers])
    return after


def _entries(one: Transfer) -> list[tuple[str, str, str | None, int]]:
    origin, target = WAYS[one.kind]
    return [
        (one.id, origin, one.user_id if origin in USER_ACCOUNTS else None, -one.amount),
        (one.id, target, one.user_id if target in USER_ACCOUNTS else None, one.amount),
    ]


def _event(one: Transfer, after: Balance) -> tuple[str, str, str, dict[str, str | int]]:
    data: dict[str, str | int] = {"kind": one.kind, "amount": one.amount}
    data |= {"available": after.available, "held": after.held}
    return "credits.changed", one.task_id or one.id, one.user_id, data


HISTORY_LIMIT = 500
HISTORY_COLUMNS = ("id", "kind", "amount", "task_id", "reason", "made_by", "reference", "at")


@dataclass(frozen=True, slots=True)
class HistoryPage:
    """A page of transfers, and the `before` of the next page."""

    transfers: list[dict[str, Any]]
    next: str | None


def history(tx: Transaction, user_id: str, before: str | None = None, limit: int = 50) -> HistoryPage:
    """Return a page of transfers, newest first, each with its change to the available and the held credits."""
    limit = min(limit, HISTORY_LIMIT)
    query = select(*(credit_transfers.c[name] for name in HISTORY_COLUMNS)).where(credit_transfers.c.user_id == user_id)
    if before is not None:
        query = query.where(credit_transfers.c.id < before)
    rows = tx.execute(query.order_by(credit_transfers.c.id.desc()).limit(limit + 1)).all()
    cursor = str(rows[limit - 1].id) if len(rows) > limit else None
    return HistoryPage([_shown(user_id, row) for row in rows[:limit]], cursor)


def _shown(user_id: str, row: Row[Any]) -> dict[str, Any]:
    change = Transfer(row.id, row.kind, user_id, row.amount).change
    return {**plain(row), "available": change.available, "held": change.held}
