"""vyre-cache: shows, empties and checks the compile cache, and passes results of the tuner on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from . import errors
from .command import CommandGroup, common_options

if TYPE_CHECKING:
    from ..execution.cache.store import Store

__all__ = ["command", "main"]

EPILOG = """\
VYRE_CACHE_DIR names another folder, VYRE_CACHE_SIZE a limit such as 2G (512M if not set).
What is removed is compiled again when it is needed.
"""


@click.group(
    "vyre-cache",
    cls=CommandGroup,
    epilog=EPILOG,
    invoke_without_command=True,
    context_settings={"max_content_width": 100},
)
@common_options("vyre-cache")
@click.pass_context
def command(ctx: click.Context) -> int:
    """Show, empty or check the cache of compiled programs."""
    command.require_command(ctx)
    return errors.DONE


@command.command()
def info() -> int:
    """Show where the cache is, and what it holds."""
    from ..execution.cache.inventory import survey
    from ..execution.cache.store import default_store

    store = default_store()
    inventory = survey(store)
    lines = [f"folder   {store.root}", f"limit    {_size(store.limit)}"]
    if refusal := store.refusal():
        lines.append(f"not used {refusal}")
    lines += [f"{kind:8} {_entries(count, size)}" for kind, (count, size) in inventory.kinds.items()]
    lines.append(f"total    {_entries(inventory.count, inventory.size)}")
    if inventory.tables:
        lines.append(f"parser   {inventory.tables} tables of the grammar")
    errors.write_stdout("\n".join(lines) + "\n")
    return errors.DONE


@command.command()
def clear() -> int:
    """Remove all that this project keeps there, and nothing else."""
    from ..execution.cache.inventory import remove_own_files

    store = _safe_store()
    count, size = store.clear()
    remove_own_files(store)
    errors.write_stdout(f"removed {_entries(count, size)}\n")
    left = sum(1 for _ in store.entries())
    if left:
        raise errors.ToolError(f"{left} entries in {store.folder} cannot be removed")
    return errors.DONE


@command.command()
@click.option("--remove", is_flag=True, help="Remove the files that are damaged.")
def verify(remove: bool) -> int:
    """Check every file to its last bit; exit code 1 if any is damaged."""
    from ..execution.cache.inventory import check

    intact, damaged = check(_safe_store(), remove)
    endings = {None: "", True: "; removed", False: "; it cannot be removed"}
    for finding in damaged:
        errors.print_error(f"{finding.path}: {finding.reason}{endings[finding.removed]}")
    errors.write_stdout(f"{intact} files are whole, {len(damaged)} damaged\n")
    return errors.FAILED if damaged else errors.DONE


@command.command()
@click.argument("file", type=click.Path())
def export(file: str) -> int:
    """Write all compiled programs and results of the tuner to FILE, a pack that VYRE_PACKS finds elsewhere."""
    from ..execution.cache.inventory import exported
    from .text_files import write_file

    store = _safe_store()
    try:
        content, count = exported(store)
    except FileNotFoundError:
        raise errors.ToolError(f"there is nothing in {store.root}") from None
    write_file(content, file)
    errors.write_stdout(f"{_entries(count, len(content))}\n")
    return errors.DONE


@command.command("export-tuning")
@click.argument("file", type=click.Path(allow_dash=True))
def export_tuning(file: str) -> int:
    """Write the results of the tuner to FILE (- for stdout), for other machines and people."""
    from ..tuning.result_cache import tuning_text
    from .text_files import write_file

    text, count = tuning_text(_safe_store())
    if file == "-":
        errors.write_stdout(text)
        return errors.DONE
    write_file(text.encode(), file)
    errors.write_stdout(f"{count} {'result' if count == 1 else 'results'}\n")
    return errors.DONE


@command.command("import-tuning")
@click.argument("file", type=click.Path())
def import_tuning(file: str) -> int:
    """Keep the results of FILE that are not here yet, as if they had been measured here."""
    from ..execution.dispatcher import BadInputs
    from ..tuning.result_cache import import_tuning as take

    try:
        new = take(file, _safe_store())
    except OSError as error:
        raise errors.ToolError(f"cannot read {file}: {error.strerror}") from None
    except BadInputs as error:
        raise errors.ToolError(str(error)) from None
    errors.write_stdout(f"{new} new {'result' if new == 1 else 'results'}\n")
    return errors.DONE


def _safe_store() -> Store:
    """The user's store.  Raises ToolError if others could have written to it."""
    from ..execution.cache.store import default_store

    store = default_store()
    if refusal := store.refusal():
        raise errors.ToolError(f"the cache is not used: {refusal}")
    return store


def _entries(count: int, size: int) -> str:
    return f"{count} {'entry' if count == 1 else 'entries'}, {_size(size)}"


def _size(count: int) -> str:
    """A number of bytes with its unit: 12 B, 3.4 KiB, 512 MiB."""
    amount, unit = float(count), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            break
        amount /= 1024
    return f"{amount:.0f} {unit}" if unit == "B" or amount == int(amount) else f"{amount:.1f} {unit}"


def main(args: Sequence[str] | None = None) -> int:
    """The entry point of the vyre-cache script."""
    return errors.run_tool(command, args)
