"""Media providers: one file each, all with the interface of `provider.py`."""
