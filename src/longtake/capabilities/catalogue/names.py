"""Names of titles, compared as a reader would: width, case and spaces do not tell two names apart."""

import unicodedata


def fold(name: str) -> str:
    """Return the name in the form in which it is compared."""
    return "".join(unicodedata.normalize("NFKC", name).casefold().split())
