"""What addresses of our own files begin with, where the database's triggers and views can read it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Column, MetaData, SmallInteger, Table, Text, update

if TYPE_CHECKING:
    from longtake.db import Transaction

asset_facts = Table("asset_facts", MetaData(), Column("id", SmallInteger), Column("public_prefix", Text))


def note_own_address(tx: Transaction, public_url: str) -> None:
    """Write it down when it is known: a process without a public address must not take it from one that has it."""
    if not public_url:
        return
    prefix = f"{public_url.rstrip('/')}/v1/assets/"
    tx.execute(update(asset_facts).where(asset_facts.c.public_prefix != prefix).values(public_prefix=prefix))
