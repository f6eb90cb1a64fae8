"""Types of arguments. The command line and HTTP both check what an action declares."""

import uuid
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, Field


def _check_identifier(text: str) -> str:
    try:
        return str(uuid.UUID(text))
    except ValueError:
        raise ValueError("must be an id such as 0199c1f2-7a40-7cc3-98c4-dc0c0c07398f") from None


Identifier = Annotated[str, AfterValidator(_check_identifier)]
#: As many as are changed in one transaction.
Identifiers = Annotated[list[Identifier], Field(min_length=1, max_length=500)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
Names = Annotated[list[Name], Field(min_length=1, max_length=500)]
Sentence = Annotated[str, Field(min_length=1, max_length=500)]
Limit = Annotated[int, Field(ge=1, le=500)]
JobState = Literal["ready", "running", "done", "failed", "cancelled"]
AlertState = Literal["open", "acknowledged", "resolved"]
#: Stands for a limit that was not mentioned: unlike None, which takes the limit away, it changes nothing.
KEEP: Final[Any] = object()
