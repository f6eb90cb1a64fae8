"""`python -m longtake` is `longtake`."""

from longtake.cli import main

main()
