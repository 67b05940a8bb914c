"""Text to the bytes that it encodes, a window at a time, each character checked."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vyre_opt.driver.direct_launch import launch
from vyre_opt.execution import output_memory
from vyre_opt.execution.target import Target
from vyre_opt.kernels.checked_decode import BLOCK, INVOCATIONS, checked_base64, checked_hex

from ..arrays import Array
from .encodings import BLANK, PADDING, Encoding
from .errors import EncodingError
from .places import Places
from .whitespace import copy_without_blanks, copy_without_line_breaks

__all__ = ["Decoder"]

WINDOW = 1 << 22
"""Characters of a window for each thread: what it decodes to stays in a cache until it is searched."""
NONE_BAD = 0xFFFFFFFF
PADDED = 4
"""A wrong character, or padding and what may not follow it: blanks are skipped if there is one among so many."""


class Decoder:
    """Decodes one text: `decode` takes the next part of it, `finish` is called at its end.

    `headroom`: bytes that stay free before those of each window.  `places`: where the text has its characters.
    Raises EncodingError for the first character that is wrong.
    """

    def __init__(self, encoding: Encoding, strict: bool, dispatcher: Target, headroom: int) -> None:
        self.encoding, self.strict, self.dispatcher, self.headroom = encoding, strict, dispatcher, headroom
        self.places = Places(encoding)
        self._size = WINDOW * dispatcher.workers
        self._program = checked_hex() if encoding.name == "hex" else checked_base64(encoding.last_two)
        self._num_characters = 0  # characters of the text, of all kinds
        self._num_values = 0  # of those that hold bits, how many were decoded
        self._waiting = np.zeros(0, np.uint8)  # the next of them, less than a group
        self._padding = 0
        self._skips_blanks = False
        self._memories: dict[str, Array] = {}

    def decode(self, text: Array) -> Iterator[Array]:
        """Buffers that end with the bytes of a window, behind the headroom.  Each is valid until the next is asked for."""
        for first in range(0, len(text), self._size):
            window = text[first : first + self._size]
            buffer = self._window(window)
            self._num_characters += len(window)
            if len(buffer) > self.headroom:
                yield buffer

    def begin(self, start: int, before: Array) -> Array:
        """Begin within a text without blanks, at a group of characters; gives the bytes of those `before`, which others
        check."""
        self._num_characters = self._num_values = start
        return self.encoding.decode(before)

    @property
    def is_between_groups(self) -> bool:
        """Whether the next character begins a group, as far as there was nothing but groups."""
        return not (len(self._waiting) or self._padding or self._skips_blanks)

    @property
    def waiting(self) -> int:
        """Characters of the last group, which is not whole yet."""
        return len(self._waiting)

    def skip(self, characters: int) -> None:
        """Leave out whole groups, which others decode and check."""
        self._num_characters += characters
        self._num_values += characters

    def end_of_part(self) -> None:
        """Raise an error if there was padding."""
        if self._padding:
            raise self._error("characters behind the padding", self._num_characters)

    def finish(self) -> Array:
        """A buffer that ends with the bytes of the last characters."""
        unit, rest = self.encoding.characters, len(self._waiting)
        may_be_short = not self._padding and not (self.strict and self.encoding.needs_padding)
        if self._padding < -rest % unit and not (may_be_short and self._may_pad):
            raise self._error(f"the text ends within a group of {unit} characters", self._num_characters)
        buffer = self._room_for(rest)
        buffer[self.headroom :] = self.encoding.decode(self._waiting)
        return buffer

    @property
    def _may_pad(self) -> int:
        """Number of `=` that may follow the characters that wait: none where these hold no byte."""
        unit, rest = self.encoding.characters, len(self._waiting)
        return -rest % unit if rest * self.encoding.octets >= unit else 0

    def _window(self, text: Array, is_unruly: bool = False) -> Array:
        """Decoded bytes of a window, and of the characters that waited.  `is_unruly`: there are blanks within lines."""
        characters, waiting = text, len(self._waiting)
        if self._skips_blanks or waiting:
            characters = self._memory("characters", waiting + len(text))
            characters[:waiting] = self._waiting
            if self._skips_blanks:
                copy = copy_without_blanks if is_unruly else copy_without_line_breaks
                characters = characters[: waiting + copy(text, characters[waiting:])]
            else:
                characters[waiting:] = text
        num_blanks = waiting + len(text) - len(characters)
        whole = len(characters) // BLOCK * BLOCK
        buffer, bad = self._blocks(characters, whole)
        may_skip = not (self.strict or is_unruly)
        if may_skip and (self.encoding.values[characters[bad : bad + PADDED]] == BLANK).any():
            is_unruly, self._skips_blanks = self._skips_blanks, True
            return self._window(text, is_unruly)
        self.places.add(self._num_characters, text, num_blanks)
        if self._padding and len(characters) > waiting:
            bad = waiting  # nothing may follow padding but more of it
        end = bad // self.encoding.characters * self.encoding.characters
        self._waiting = characters[end:bad].copy()
        if bad < len(characters):
            self._check_padding(characters, bad)
        self._num_values += end
        first, last = (self.headroom + self.encoding.bytes_of(count) for count in (whole, end))
        if end > whole:
            buffer[first:last] = self.encoding.decode(characters[whole:end])
        return buffer[:last]

    def _check_padding(self, characters: Array, start: int) -> None:
        """Raise an error unless all characters from `start` on are padding, and no more of it than there may be."""
        is_padding = self.encoding.values[characters[start:]] == PADDING
        count = int(is_padding.argmin()) if not is_padding.all() else len(is_padding)
        most = self._may_pad - self._padding
        if count > most:
            raise self._error("`=` where no padding belongs", self._place(characters, start + most))
        if count < len(is_padding):
            raise self._wrong_character(characters, start + count, count > 0 or self._padding > 0)
        self._padding += count

    def _place(self, characters: Array, index: int) -> int:
        """The place in the text of a character of a window."""
        number = self._num_values + self._padding + index
        return int(self.places.of(np.array([number], np.uint64))[0])

    def _wrong_character(self, characters: Array, bad: int, is_behind_padding: bool) -> EncodingError:
        place, value = self._place(characters, bad), self.encoding.values[characters[bad]]
        character = ascii(chr(characters[bad]))
        if is_behind_padding and value < PADDING:
            return self._error(f"{character} behind the padding", place)
        advice = "strict=False skips blanks and line breaks" if value == BLANK else ""
        return self._error(f"{character} is no character of {self.encoding.name}", place, advice)

    def _error(self, what: str, place: int, advice: str = "") -> EncodingError:
        return EncodingError(f"at character {place}: {what}", place, advice)

    # --- launches

    def _memory(self, name: str, size: int) -> Array:
        """Memory that is used again under a name: new memory costs more than a copy to it."""
        if len(self._memories.get(name, ())) < size:
            self._memories[name] = output_memory.empty(size, np.dtype(np.uint8))
        return self._memories[name][:size]

    def _room_for(self, characters: int) -> Array:
        return self._memory("bytes", self.headroom + self.encoding.bytes_of(characters))

    def _blocks(self, characters: Array, whole: int) -> tuple[Array, int]:
        """A buffer for the bytes of all characters, with those of the first `whole`, of some blocks, behind the headroom;
        and the place of the first character that holds no bits, or how many there are."""
        buffer = self._room_for(len(characters))
        if whole:
            first_bad = np.array([NONE_BAD], np.uint32)
            arrays = [np.ascontiguousarray(characters[:whole]), buffer[self.headroom :], first_bad]
            launch(self.dispatcher, self._program, arrays, -(-whole // (BLOCK * INVOCATIONS)))
            if first_bad[0] != NONE_BAD:
                return buffer, int(first_bad[0])
        is_bad = self.encoding.values[characters[whole:]] >= PADDING
        return buffer, whole + (int(is_bad.argmax()) if is_bad.any() else len(is_bad))
