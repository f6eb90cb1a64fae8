"""Alembic's entry: runs the migrations on the connection that migrate.py opened."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(
    connection=connection,
    # Each migration is all or nothing, on SQLite too.
    transactional_ddl=True,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
