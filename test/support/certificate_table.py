"""How much of what passes do the checker of certificates proves: of the examples, and of the texts of the lit tests.

PYTHONPATH=test python -m support.certificate_table                             the table
PYTHONPATH=test python -m support.certificate_table --page docs/reference/certified.md     writes it into a page
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from vyre_opt import parse
from vyre_opt.certificates import CertificateWriter
from vyre_opt.checker import Report, check
from vyre_opt.ir import DiagnosticError, Module, errors_of
from vyre_opt.passes import PassManager

__all__ = ["BEGIN", "END", "PASSES", "example_texts", "lit_texts", "reported", "row", "table"]

ROOT = Path(__file__).parents[2]
BEGIN, END = "<!-- made by `python -m support.certificate_table` -->", "<!-- end -->"
PASSES = "default,coarsen,join_rows"
"""What a text is given to."""


def example_texts() -> dict[str, str]:
    paths = sorted((ROOT / "examples").glob("**/*.vyre"))
    return {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in paths}


def lit_texts() -> Iterator[str]:
    """The parts of the lit tests that are valid modules."""
    for path in sorted((ROOT / "test/lit").glob("**/*.vyre")):
        yield from re.split(r"^// -----\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE)


def module_of(text: str) -> Module | None:
    """None of a text that is no valid module, or open in its types."""
    try:
        module = parse(text)
        is_valid = not errors_of(module)
    except DiagnosticError:
        return None
    is_open = any(item.type_parameters for item in module.parametric)
    return module if is_valid and not is_open else None


def reported(text: str, passes: str = PASSES) -> Report | None:
    """What the checker says of the certificate of a text's passes."""
    module, writer = module_of(text), CertificateWriter()
    if module is None:
        return None
    try:
        PassManager(passes, verify_each=False, observers=[writer]).run(module)
    except DiagnosticError:
        return None
    return check(writer.written, writer.optimised, writer.certificate())


def row(name: str, report: Report) -> str:
    kinds = Counter((finding.kind, finding.status) for finding in report.findings if finding.step)
    cells = [f"{kinds[kind, 'proven']}" for kind in ("tile", "join", "pipeline", "same")]
    trusted = sum(count for (_, status), count in kinds.items() if status == "trusted")
    whole = "proven" if report.is_equal_proven else "in part"
    bounds, races = f"{report.in_bounds} of {report.accesses}", f"{report.race_free} of {report.shared}"
    return f"| {' | '.join([name, *cells, str(trusted), whole, bounds, races])} |"


HEAD = (
    "| text | tile | join | pipeline | same | trusted only | equal to the text as written | in bounds | free of races |",
    "|---|---|---|---|---|---|---|---|---|",
)


def by_pass(reports: Sequence[Report]) -> list[str]:
    counts = Counter((f.step, f.status) for report in reports for f in report.findings if f.step)
    names = sorted({name for name, _ in counts})
    rows = [f"| `{name}` | {counts[name, 'proven']} | {counts[name, 'trusted']} |" for name in names]
    return ["| pass | claims proven | trusted only |", "|---|---|---|", *rows]


def table() -> list[str]:
    """The rows of the examples, and those by pass of all texts."""
    examples = {name: reported(text) for name, text in example_texts().items()}
    found = {name: report for name, report in examples.items() if report is not None}
    rows = [row(f"`{name}`", report) for name, report in found.items()]
    lit = [report for text in lit_texts() if (report := reported(text)) is not None]
    said = f"Of the examples and {len(lit)} texts of the lit tests, by pass:"
    return [*HEAD, *rows, "", said, "", *by_pass([*found.values(), *lit])]


@click.command()
@click.option("--page", type=click.Path(exists=True, path_type=Path), help="Write the table into it.")
def main(page: Path | None) -> None:
    """Print the table, or write it into a page."""
    text = "\n".join(table())
    if page is None:
        click.echo(text)
        return
    head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, tail = rest.partition(END)
    page.write_text(f"{head}{BEGIN}\n\n{text}\n\n{END}{tail}", encoding="utf-8")


if __name__ == "__main__":
    main(prog_name="python -m support.certificate_table")
