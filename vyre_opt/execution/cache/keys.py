"""Cache keys: a hash of everything that a program's code depends on.

BLAKE3 over typed, length-prefixed parts (see `specialization.digest.digest_of`):

    compiler   this version, and a hash of the sources that transform and lower programs
    llvm       the build of LLVM
    target     all that says what to compile for: the machine, and the options, whole
    program    the exact fingerprint, since code numbers ops, and those of the functions that it calls, by name
    spec       each constant with its type and bits
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from ... import __version__
from ...ir.program import Func, Module, Program
from ...specialization.digest import Entry, constant_entry, digest_of
from ...worker import find_module, import_module
from .store import default_store

__all__ = [
    "Fingerprints",
    "called_fingerprints",
    "compile_key",
    "compiler_version",
    "fingerprints_of",
    "line_table_key",
    "llvm_version",
    "locations_digest",
    "text_key",
]

Fingerprints = tuple[bytes, list[tuple[str, bytes]]]
"""The exact fingerprint of a program, and those of the functions that it calls, with their names."""

_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
_SOURCES = (
    "ir",
    "syntax",
    "rewriting",
    "slices",
    "analysis",
    "math_functions",
    "lowering",
    "targets/cpu",
    "targets/cuda",
    "passes",
    "fusion",
    "scheduling",
    "kernels",
    "specialization",
    "execution",
    "driver",
    "lang",
    "mlir",
)


def compile_key(
    program: Program,
    module: Module | None,
    specs: Mapping[str, Any],
    target: object,
    prints: Fingerprints | None = None,
) -> bytes:
    """32 bytes.  `specs`: encoded (see ir.arith).  `target`: what else the code depends on, as text, numbers, tuples and
    dataclasses, whose `repr` has all of it.  `prints`: the program's fingerprints, if they are known."""
    own, called = fingerprints_of(program, module) if prints is None else prints
    return digest_of(
        [
            *_environment(target),
            ("program", "fingerprint", own),
            *(("func " + name, "fingerprint", print_) for name, print_ in called),
            *(_spec_entry(program, name, value) for name, value in specs.items()),
        ]
    )


def text_key(text: str, target: object) -> bytes:
    """32 bytes for LLVM IR that belongs to no program."""
    return digest_of([*_environment(target), ("text", "llvm", text.encode())])


def _environment(target: object) -> list[Entry]:
    return [
        ("compiler", "version", compiler_version().encode()),
        ("llvm", "version", llvm_version().encode()),
        ("target", "repr", repr(target).encode()),
    ]


def fingerprints_of(program: Program, module: Module | None) -> Fingerprints:
    import_module("vyre_opt.syntax.fingerprint")
    from ...syntax.fingerprint import exact_fingerprint

    return exact_fingerprint(program), called_fingerprints(program, module)


def called_fingerprints(program: Program, module: Module | None) -> list[tuple[str, bytes]]:
    """Names and fingerprints of the functions that a program calls, directly or not, by name."""
    if not any(op.name == "call" for op in program.walk()):
        return []
    import_module("vyre_opt.syntax.fingerprint")
    from ...syntax.fingerprint import exact_fingerprint

    funcs = module.funcs if module is not None else {}
    called: set[str] = set()
    worklist = [op.attrs["callee"] for op in program.walk() if op.name == "call"]
    while worklist:
        name = worklist.pop()
        if name not in called and name in funcs:  # the lowering reports missing ones
            called.add(name)
            worklist += [op.attrs["callee"] for op in funcs[name].walk() if op.name == "call"]
    return [(name, exact_fingerprint(funcs[name])) for name in sorted(called)]


def locations_digest(program: Program, module: Module | None) -> bytes:
    """A hash of where a program and the functions that it calls stand, their ops and buffers too, and in which texts.

    Fingerprints leave that out.
    """
    from blake3 import blake3

    items: list[Program | Func] = [program]
    if module is not None:
        items += [module.funcs[name] for name, _ in called_fingerprints(program, module)]
    locs = [part.loc for item in items for part in (item, *item.walk())]
    locs += [buffer.loc for buffer in program.buffers.values()]
    sources = list(dict.fromkeys(loc.source for loc in locs if loc is not None))
    numbers = {source: number for number, source in enumerate(sources)}
    texts = [(s.name, s.text, s.first_line, s.first_column, s.spelling) for s in sources]
    locations = [None if loc is None else (numbers[loc.source], loc.start, loc.end) for loc in locs]
    return blake3(repr((texts, locations)).encode(errors="surrogatepass")).digest()


def line_table_key(program: Program, module: Module | None, debug_info: bool) -> tuple[str, ...]:
    """Dependencies of code with line tables besides the program: its places, and the folder that names of files are relative to."""
    return (locations_digest(program, module).hex(), os.getcwd()) if debug_info else ()


def _spec_entry(program: Program, name: str, value: Any) -> Entry:
    name, kind, payload = constant_entry(name, value, program.specs[name].dtype)
    return f"spec {name}", kind, payload


@cache
def compiler_version() -> str:
    """The version of this package, and a hash of the sources that compile: a checkout changes between versions."""
    files = sorted(_source_files())
    # files are read where one of them has changed: a change sets the time of the node, which nobody can set back
    status = repr(files).encode(errors="surrogateescape")
    key = digest_of([("version", "text", __version__.encode()), ("files", "status", status)])
    store = default_store()
    known = store.get(key, "version")
    if known is not None:
        return known.decode(errors="replace")
    version = _version_of([path for path, *_ in files])
    store.put(key, "version", version.encode())
    return version


def _source_files() -> list[tuple[str, int, int, int, int, int]]:
    """Files with their device, node, size and times."""
    files: list[tuple[str, int, int, int, int, int]] = []
    pending = [os.path.join(_PACKAGE, folder) for folder in _SOURCES]
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.name.endswith(".py"):
                    s = entry.stat()
                    files.append((entry.path, s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns))
                elif entry.name != "__pycache__" and entry.is_dir():
                    pending.append(entry.path)
    return files


def _version_of(paths: Sequence[str]) -> str:
    from blake3 import blake3

    digest = blake3()
    for path in paths:
        with open(path, "rb") as file:
            content = file.read()
        name = os.path.relpath(path, _PACKAGE).encode(errors="surrogateescape")
        for part in (name, content):
            digest.update(len(part).to_bytes(8, "little") + part)
    return f"{__version__} {digest.hexdigest()}"


@cache
def llvm_version() -> str:
    """llvmlite's version, and its library's size and time: one version may be built on several LLVMs.

    LLVM itself is not asked, since a run whose code is all in the cache need not load it.
    """
    folder = _folder_of_llvmlite()
    with os.scandir(os.path.join(folder, "binding")) as entries:
        named = [e for e in entries if e.name.partition("llvmlite.")[2].startswith(("so", "dylib", "dll"))]
    facts = [(e.stat().st_size, e.stat().st_mtime_ns) for e in sorted(named, key=lambda e: e.name)]
    with open(os.path.join(folder, "_version.py"), encoding="utf-8", errors="replace") as file:
        version = file.read()
    return f"llvmlite {version}" + "".join(f", {size} bytes of {time}" for size, time in facts)


def _folder_of_llvmlite() -> str:
    """Found without an import of it."""
    spec = find_module("llvmlite")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("there is no llvmlite", name="llvmlite")
    return os.path.dirname(spec.origin)
