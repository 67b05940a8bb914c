"""What is wrong with the data of a search."""

from __future__ import annotations

__all__ = ["EncodingError"]


class EncodingError(ValueError):
    """Text that encodes nothing.  `place`: of the first character that is wrong, in the text as it was given."""

    def __init__(self, message: str, place: int) -> None:
        super().__init__(message)
        self.place = place

    def __reduce__(self) -> tuple[type[EncodingError], tuple[str, int]]:
        return EncodingError, (self.args[0], self.place)
