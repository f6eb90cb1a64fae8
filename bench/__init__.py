"""Measurements of Longtake beside its peers, on the same servers and in the same rounds: `python -m bench --help`."""
