"""A picture of results: the cost of each configuration, and what the search expected.

left    the cost of each measured configuration, in the order of measuring, on a logarithmic axis; the default, the choice, what
        failed, and a configuration that was the fastest once and lost its confirmation
right   before each choice, the cost that was predicted for it and the best cost so far, over the last best cost

Drawn by matplotlib, of the extra `plot`.  The same result and the same matplotlib give the same bytes.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib.util import find_spec
from io import BytesIO
from textwrap import fill
from typing import TYPE_CHECKING, Any

from .measure import INFINITE
from .result import Measured, Tuning, show_cost
from .space import show_config

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["FORMATS", "MissingMatplotlib", "picture", "picture_format"]

FORMATS = ("svg", "png", "pdf")
ROW = (11.0, 4.2)
"""Inches of the two panels of a result."""

MARKS: dict[str, dict[str, Any]] = {
    "measured": {"color": "#8da0cb", "marker": "o", "s": 20},
    "default": {"color": "#d95f02", "marker": "s", "s": 60},
    "choice": {"color": "#1b9e77", "marker": "*", "s": 150},
    "default and choice": {
        "color": "#1b9e77",
        "marker": "*",
        "s": 150,
        "edgecolor": "#d95f02",
        "linewidth": 1.5,
    },
    "fastest once, not confirmed": {"color": "none", "marker": "D", "s": 60, "edgecolor": "#b3362b"},
    "failed": {"color": "#b3362b", "marker": "x", "s": 30},
}


class MissingMatplotlib(ImportError):
    """There is no matplotlib here; the message says how to install it."""


def picture_format(path: str) -> str:
    """The format that a file's name asks for.  Raises ValueError for one that is not drawn, and MissingMatplotlib."""
    if find_spec("matplotlib") is None:
        raise MissingMatplotlib("plots need matplotlib: pip install 'vyre-opt[plot]'")
    ending = path.rpartition(".")[2].lower()
    if ending not in FORMATS:
        raise ValueError(
            f"{path!r} does not end in {', '.join(f'.{name}' for name in FORMATS[:-1])} or .{FORMATS[-1]}"
        )
    return ending


def picture(tunings: Sequence[Tuning], format: str = "svg") -> bytes:
    """A row of two panels for each result, as a file of one of FORMATS.  Needs matplotlib, see `picture_format`."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)  # it speaks of its caches on stderr
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    # text stays text: it is small, and searchable
    with rc_context({"svg.hashsalt": "vyre-opt", "svg.fonttype": "none", "text.parse_math": False}):
        figure = Figure((ROW[0], ROW[1] * max(1, len(tunings))), layout="constrained")
        rows = figure.subfigures(max(1, len(tunings)), squeeze=False)
        for tuning, (row,) in zip(tunings, rows, strict=False):  # of no results there is an empty picture
            row.suptitle(fill(f"{tuning.kernel} on {tuning.device}", 110), fontsize="medium")
            left, right = row.subplots(1, 2)
            _draw_costs(left, tuning)
            _draw_path(right, tuning)
        file = BytesIO()
        # without a date, so that equal results are equal files
        metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(format)
        figure.savefig(file, format=format, dpi=150, metadata=metadata)
    return file.getvalue()


def _draw_costs(axes: Axes, tuning: Tuning) -> None:
    axes.set_title("Cost of each configuration", fontsize="medium")
    axes.set_xlabel("configurations, in the order of measuring")
    axes.set_ylabel("cost (median)")
    finite = [(n, m) for n, m in enumerate(tuning.measured, 1) if 0 < m.cost < INFINITE]
    failed = [n for n, m in enumerate(tuning.measured, 1) if m.cost == INFINITE]
    for name in ("measured", "default", "choice", "default and choice"):
        points = [(n, m.cost) for n, m in finite if _kind(m, tuning) == name]
        if points:
            axes.scatter(
                *zip(*points, strict=True), label=name, zorder=2 + (name != "measured"), **MARKS[name]
            )
    if finite:
        axes.set_yscale("log")
        _label_costs(axes, [m.cost for _, m in finite])
        _mark_unconfirmed(axes, tuning, finite)
    if failed:  # on the upper edge, whatever the scale
        transform = axes.get_xaxis_transform()
        axes.scatter(
            failed, [1.0] * len(failed), transform=transform, clip_on=False, label="failed", **MARKS["failed"]
        )
    axes.set_xlim(0, len(tuning.measured) + 1)
    axes.grid(visible=True, axis="y", color="0.92")
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3, frameon=False)


def _kind(each: Measured, tuning: Tuning) -> str:
    names = [
        name
        for name, config in (("default", tuning.default), ("choice", tuning.config))
        if each.config == config
    ]
    return " and ".join(names) or "measured"


def _mark_unconfirmed(axes: Axes, tuning: Tuning, finite: Sequence[tuple[int, Measured]]) -> None:
    """A ring around the fastest, and a word, where it is not the choice."""
    number, fastest = min(finite, key=lambda row: row[1].cost)
    if fastest.config == tuning.config:
        return
    name = "fastest once, not confirmed"
    axes.scatter([number], [fastest.cost], label=name, zorder=4, **MARKS[name])
    notes = [show_config(fastest.config), tuning.verdict(fastest) or "another was faster when both ran again"]
    is_right = number > len(tuning.measured) / 2
    axes.annotate(
        "\n".join(fill(text, 44) for text in notes),
        (number, fastest.cost),
        xytext=(-10 if is_right else 10, 10),
        textcoords="offset points",
        ha="right" if is_right else "left",
        fontsize="x-small",
        color=MARKS[name]["edgecolor"],
        bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
        zorder=5,
    )


def _label_costs(axes: Axes, costs: Sequence[float]) -> None:
    """Ticks in seconds and their parts; within a power of ten, at round values between them."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

    is_wide = max(costs) >= 10 * min(costs)
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)) if is_wide else MaxNLocator(6))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda cost, _: show_cost(cost)))


def _draw_path(axes: Axes, tuning: Tuning) -> None:
    axes.set_title("What the search expected", fontsize="medium")
    axes.set_xlabel("configurations measured")
    axes.set_ylabel("cost, over the last best")
    path = [point for point in tuning.path if point.best > 0 and point.expected > 0]
    if not path:
        axes.text(0.5, 0.5, "no predictions: all were measured", transform=axes.transAxes, ha="center")
        axes.set_yticks([])
        return
    measured, last = [point.measured for point in path], path[-1].best
    axes.plot(
        measured,
        [p.expected * p.best / last for p in path],
        "o-",
        ms=3,
        color="#7570b3",
        label="predicted for the next",
    )
    axes.plot(measured, [p.best / last for p in path], "o-", ms=3, color="#1b9e77", label="best so far")
    axes.set_yscale("log")
    from matplotlib.ticker import MaxNLocator, NullLocator, StrMethodFormatter

    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:.3g}"))
    axes.grid(visible=True, axis="y", color="0.92")
    axes.legend(fontsize="small", loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, frameon=False)
