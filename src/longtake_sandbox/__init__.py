"""A local stand-in for the providers: it speaks their wire contracts, draws media, and fails on demand.

This package imports nothing from Longtake and calls only loopback addresses.
"""
