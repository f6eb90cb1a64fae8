"""The outside world in a box: a server that speaks the providers' wire contracts, draws, and fails on demand.

Nothing of Longtake is imported here, and nobody outside is ever called: only loopback addresses are fetched.
"""
