"""Pictures of media files, made by child processes that can do no harm.

A decoder sees bytes of strangers: it gets neither an address nor a file, only what it asks its parent for by place and
length, under limits of processor time, memory and time of day. If it dies, the worker lives.

Nothing is imported here: a decoder's process loads this file too, and needs nothing of its parent's side.
"""
