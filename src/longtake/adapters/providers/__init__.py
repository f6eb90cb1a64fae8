"""Media providers: one small file each, all with the interface of `provider.py`."""
