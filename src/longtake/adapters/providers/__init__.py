"""Providers of media: one small file for each, all speaking the vocabulary of `provider.py`."""
