"""Pictures of media files, made by confined child processes.

A decoder handles untrusted bytes. It gets neither a URL nor a file, only the ranges that it requests from its parent,
under limits of processor time, memory and wall-clock time. If it dies, the worker lives.

This file imports nothing: the child loads it too and needs nothing of its parent's side.
"""
