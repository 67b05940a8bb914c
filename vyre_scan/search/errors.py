"""Errors in the data of a search."""

from __future__ import annotations

__all__ = ["EncodingError"]


class EncodingError(ValueError):
    """Text that encodes nothing.  `place`: of the first character that is wrong, in the text as it was given.

    `message`: what is wrong there; `advice`: what to do about it in Python, or empty.
    """

    def __init__(self, message: str, place: int, advice: str = "") -> None:
        super().__init__(f"{message}; {advice}" if advice else message)
        self.message, self.place, self.advice = message, place, advice

    def __reduce__(self) -> tuple[type[EncodingError], tuple[str, int, str]]:
        return EncodingError, (self.message, self.place, self.advice)
