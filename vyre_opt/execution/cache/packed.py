"""Entries of the compile cache in packs: what another process has compiled, for one that starts with an empty folder.

    VYRE_PACKS=/srv/kernels:/home/me/packs      folders whose *.vyrepack are looked into after the cache folder

Such a part is named cache/KEY, and its `about` has the kind of the entry.  A pack in such a folder is believed as the cache folder is: so folders and
files that others may write to are not used.
"""

from __future__ import annotations

import os
import warnings
from functools import cache
from pathlib import Path

from ...cache_files.folder import Unsafe, open_folder
from ...pack_files.format import MAX_BYTES, Pack, PackError

__all__ = ["PACKS_VARIABLE", "SUFFIX", "packed_entry"]

PACKS_VARIABLE = "VYRE_PACKS"
SUFFIX = ".vyrepack"


def packed_entry(key: bytes, kind: str) -> bytes | None:
    """The payload under a key in the packs that the environment names; None where none has it."""
    folders = os.environ.get(PACKS_VARIABLE)
    if not folders:
        return None
    name = f"cache/{key.hex()}"
    for pack in _packs_of(folders):
        if name in pack and pack.about_part(name).get("kind") == kind:
            try:
                return pack.read(name)
            except PackError as error:
                warnings.warn(f"{PACKS_VARIABLE}: {error}", stacklevel=2)
    return None


@cache
def _packs_of(folders: str) -> list[Pack]:
    """The packs of folders, in order; a warning for what is not used."""
    packs = []
    for path in filter(None, folders.split(os.pathsep)):
        try:
            with open_folder(Path(path).absolute()) as folder:
                names = sorted(name for name, _ in folder.scan() if name.endswith(SUFFIX))
                packs += [Pack(folder.read(name, MAX_BYTES), folder.path_of(name)) for name in names]
        except Unsafe as unsafe:
            warnings.warn(f"{PACKS_VARIABLE}: {unsafe}", stacklevel=2)
        except OSError as error:
            warnings.warn(f"{PACKS_VARIABLE}: cannot read {path}: {error.strerror}", stacklevel=2)
        except PackError as error:
            warnings.warn(f"{PACKS_VARIABLE}: {error}", stacklevel=2)
    return packs
