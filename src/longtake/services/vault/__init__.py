"""Secrets: this machine's own, and those stored encrypted in the database.

::

    root = RootSecret.of(settings)               LONGTAKE_SECRET_KEY, or secret.key in the data folder
    root.derive("tokens")                        a key per purpose; none reveals anything about the others
    vault = Vault.of(settings, root)             seals with LONGTAKE_MASTER_KEY, or a key derived from the root
    keys = KeySource(settings, vault, database)  keys("kie_api_key"): from the settings, else from the vault
"""
