"""Charts of the records: one definition per kind, for the command, notebooks and web pages.

``build_chart(kind, rows)`` returns an Altair chart. Its ``to_dict()`` is a Vega-Lite specification
with the rows under ``data`` as ``{"name": "rows", "values": […]}`` and nowhere else: the
specification itself converts units, joins settings and finds fronts.

A page with its own rows takes the specification without any, at build time::

    spec = build_chart("memory", width=900, theme="dark").to_dict()

and gives it rows in the browser, before or after it is drawn::

    spec.data = {name: "rows", values: rows};              // before: a new specification
    const result = await vegaEmbed(element, spec, {ast: true, expr: vega.expressionInterpreter});
    result.view.change("rows", vega.changeset().remove(vega.truthy).insert(rows)).run();  // after

The rows are objects with the columns listed in ``COLUMNS[kind]``, as in the view ``finetuning``
(``scaling`` for scaling): bytes and seconds, integers as numbers (not as BigInt), null where
nothing is stated. A column that is left out counts as not stated. Predictions are rows too, with
``evidence`` other than ``measured``: they are drawn hollow.

Options: ``theme`` (light, dark), ``width`` of the whole chart in pixels, ``x`` and ``y`` (columns
listed in ``CHOICES[kind]``), ``methods`` (labels that get a colour of their own, the same in each
chart of a page; without it, the usual ones and the most frequent in the rows), ``title``. Models
and cards are never pooled: each pair has a panel, and rows of more than ``MOST_PANELS`` pairs are
refused, with the filters to use. A page has to keep to that itself.
"""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from registry.charts.kinds import CHOICES, COLUMNS, KINDS, MOST_PANELS
from registry.errors import ChartError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["CHOICES", "COLUMNS", "KINDS", "MOST_PANELS", "build_chart"]

#: What installs the packages that draw.
INSTALL = "pip install 'peft-registry[plot]'"


def build_chart(kind: str, rows: Sequence[dict[str, Any]] | None = None, **options: Any) -> Any:
    """Return the Altair chart of a kind over some rows; without rows, for a page that has them.

    Raises ChartError for an unknown kind, option, column or theme, for rows of which nothing can be
    drawn, and for rows of more models and cards than a chart holds; MissingExtraError if Altair is
    not installed.
    """
    require_altair()
    validate_call(kind, options)
    from registry.charts.build import ChartOptions, build  # noqa: PLC0415 - loads Altair

    return build(kind, rows, ChartOptions(**options))


def validate_call(kind: str, options: Iterable[str], others: Iterable[str] = ()) -> None:
    """Raise ChartError for a kind, or an option that is none of a chart's or of ``others``."""
    from registry.charts.build import ChartOptions  # noqa: PLC0415 - loads Altair

    if kind not in KINDS:
        raise ChartError(
            f"no chart of kind {kind!r}{did_you_mean(kind, KINDS)}; expected one of "
            f"{', '.join(KINDS)}"
        )
    taken = {*(field.name for field in fields(ChartOptions)), *others}
    for name in sorted(set(options) - taken):
        raise ChartError(
            f"{kind}: no option {name!r}{did_you_mean(name, taken)}; expected some of "
            f"{', '.join(sorted(taken - {'chosen'}))}"
        )


def require_altair() -> None:
    """Raise MissingExtraError where Altair is not installed."""
    import importlib.util  # noqa: PLC0415 - only where something is drawn

    from registry.errors import MissingExtraError  # noqa: PLC0415 - as above

    missing = [name for name in ("altair", "vl_convert") if not importlib.util.find_spec(name)]
    if missing:
        raise MissingExtraError(
            f"charts need {' and '.join(missing)}, which this Python does not have; install "
            f"with: {INSTALL}"
        )
