"""What follows exactly from what a submission states; it is marked as derived."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

#: Ways of spreading state over ranks in which every rank takes its own micro-batch.
DATA_PARALLEL = ("ddp", "dp", "zero1", "zero2", "zero3", "fsdp", "fsdp_grad_op", "hsdp")

#: Statistics that stand for a typical sample; the first that is stated counts.
_TYPICAL_STATISTICS = ("median", "value", "mean")

Figure = dict[str, Any]

_MEMORY = ("peak_memory", "memory")

#: Rates that add up over the cards.
_SUMMED_RATES = ("samples_per_second", "tokens_per_second")

_ONE_CARD = "one card"
_BOUNDS = ("value", "low", "high")

#: What stands for a place where none is named.
_WHOLE_SUBMISSION = {"locator": "submission"}


def complete_observation(observation: Mapping[str, Any]) -> dict[str, Any]:
    """Return an observation of a submission with what follows from it; the other stays as it is."""
    configuration = dict(observation["configuration"])
    fill_configuration(configuration)
    stated = observation.get("measurements", ())
    figures = [*stated, *derive_figures(configuration, stated)]
    return {
        **observation,
        "configuration": configuration,
        **({"measurements": figures} if figures else {}),
        "citations": observation.get("citations") or [_WHOLE_SUBMISSION],
    }


def without_derived(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration without the columns that follow from its others."""
    stated = dict(configuration)
    fill_configuration(stated)
    for name in ("global_batch_size", "n_gpus"):
        rest = {key: value for key, value in stated.items() if key != name}
        filled = dict(rest)
        fill_configuration(filled)
        if filled.get(name) == stated.get(name):
            stated = rest
    return stated


def fill_configuration(configuration: dict[str, Any]) -> None:
    """Fill in the numbers of GPUs and the global batch size where they follow."""
    n_nodes, per_node = configuration.get("n_nodes"), configuration.get("gpus_per_node")
    if n_nodes and per_node:
        configuration.setdefault("n_gpus", n_nodes * per_node)
    if configuration.get("n_gpus") == 1:
        configuration.setdefault("n_nodes", 1)
        configuration.setdefault("gpus_per_node", 1)
    size = global_batch_size(configuration)
    if size is not None:
        configuration.setdefault("global_batch_size", size)


def global_batch_size(configuration: dict[str, Any]) -> int | None:
    """Return samples per optimizer step over all devices, or None where that does not follow."""
    micro, steps = configuration.get("micro_batch_size"), configuration.get("grad_accum_steps")
    ranks = data_parallel_size(configuration)
    return micro * steps * ranks if micro and steps and ranks else None


def data_parallel_size(configuration: dict[str, Any]) -> int | None:
    """Return the number of model replicas that take samples of their own, or None."""
    n_gpus: int | None = configuration.get("n_gpus")
    if n_gpus is None or n_gpus == 1:
        return n_gpus
    if configuration.get("sharding") not in DATA_PARALLEL:
        return None
    sizes = ("tensor_parallel", "pipeline_parallel", "context_parallel")
    model_ranks = 1
    for name in sizes:
        model_ranks *= configuration.get(name) or 1
    return n_gpus // model_ranks if n_gpus % model_ranks == 0 else None


def derive_figures(configuration: dict[str, Any], figures: Sequence[Figure]) -> list[Figure]:
    """Return the figures that follow exactly from the stated ones and are not stated.

    The memory of all cards together is the sum over the cards; on one card every figure is the
    total; a rate of all cards is their mean times their number; a rate of samples follows from
    samples and time; a rate of tokens from that where every sequence has the same length.
    """
    derived = [
        *_total_memory(configuration, figures),
        *_totals_of_one_card(configuration, figures),
        *_rates_of_all_cards(configuration, figures),
    ]
    stated = _typical_figures([*figures, *derived])
    rate = _samples_per_second(configuration, stated)
    if rate is not None:
        derived.append(rate)
        stated["samples_per_second"] = rate["value"]
    tokens = _tokens_per_second(configuration, stated)
    return [*derived, tokens] if tokens is not None else derived


def _typical_figures(figures: Sequence[Figure]) -> dict[str, float]:
    """Return for each metric the figure of all devices that the view ``results`` shows."""
    stated: dict[str, float] = {}
    typical = [f for f in figures if f["statistic"] in _TYPICAL_STATISTICS]
    for figure in sorted(typical, key=_typical_rank):
        if figure["scope"] == "total":
            stated.setdefault(figure["metric"], figure["value"])
    return stated


def _typical_rank(figure: Figure) -> tuple[bool, int]:
    is_derived = figure.get("origin") == "derived"
    return is_derived, _TYPICAL_STATISTICS.index(figure["statistic"])


def _total_memory(configuration: dict[str, Any], figures: Sequence[Figure]) -> Iterator[Figure]:
    peaks = [figure for figure in figures if figure["metric"] == "peak_memory"]
    for measured in dict.fromkeys((figure.get("kind"), figure["statistic"]) for figure in peaks):
        kind, statistic = measured
        of_kind = [figure for figure in peaks if figure.get("kind") == kind]
        alike = [figure for figure in of_kind if figure["statistic"] == statistic]
        if not any(figure["scope"] == "total" for figure in of_kind):
            yield from _summed(configuration.get("n_gpus"), alike)


def _summed(n_gpus: int | None, alike: list[Figure]) -> Iterator[Figure]:
    cards = [figure for figure in alike if figure["scope"] == "per_gpu"]
    reason = f"sum over {len(cards)} cards"
    if not cards and n_gpus == 1:
        cards = sorted(alike, key=lambda figure: figure["scope"] != "max_gpu")[:1]
        reason = _ONE_CARD
    if not cards or len(cards) != n_gpus:
        return
    total = {bound: _sum_bound(cards, bound) for bound in _BOUNDS}
    yield {**_as_total(cards[0], reason), **total}


def _as_total(figure: Figure, reason: str) -> Figure:
    """Return a figure of all devices that measures what one of a single device does."""
    kept = ("metric", "statistic", "kind", "value", "low", "high")
    said = {name: figure[name] for name in kept if name in figure}
    return {**said, "scope": "total", "origin": "derived", "reason": reason}


def _totals_of_one_card(
    configuration: dict[str, Any], figures: Sequence[Figure]
) -> Iterator[Figure]:
    """Yield the rates and times of the one card there is as those of all devices."""
    if configuration.get("n_gpus") != 1:
        return
    others = [figure for figure in figures if figure["metric"] not in _MEMORY]
    known = {(f["metric"], f["statistic"]) for f in others if f["scope"] == "total"}
    for figure in others:
        if (figure["metric"], figure["statistic"]) not in known:
            known.add((figure["metric"], figure["statistic"]))
            yield _as_total(figure, _ONE_CARD)


def _rates_of_all_cards(
    configuration: dict[str, Any], figures: Sequence[Figure]
) -> Iterator[Figure]:
    """Yield the rates of several cards together of which the mean over them is stated."""
    n_gpus = configuration.get("n_gpus") or 1
    rates = [figure for figure in figures if figure["metric"] in _SUMMED_RATES]
    known = {
        (figure["metric"], figure["statistic"]) for figure in rates if figure["scope"] == "total"
    }
    for figure in rates:
        is_stated = (figure["metric"], figure["statistic"]) in known
        if n_gpus > 1 and figure["scope"] == "mean_gpu" and not is_stated:
            total = _as_total(figure, f"mean of {n_gpus} cards x {n_gpus}")
            bounds = {name: total[name] * n_gpus for name in _BOUNDS if name in total}
            yield {**total, **bounds}


def _sum_bound(cards: list[Figure], bound: str) -> float:
    return sum(float(figure[bound if bound in figure else "value"]) for figure in cards)


def _samples_per_second(configuration: dict[str, Any], stated: dict[str, float]) -> Figure | None:
    if "samples_per_second" in stated:
        return None
    batch, n_samples = configuration.get("global_batch_size"), configuration.get("n_samples")
    n_epochs = configuration.get("n_epochs")
    if stated.get("step_time") and batch:
        return _rate("samples_per_second", batch / stated["step_time"], "batch / step time")
    if stated.get("sample_time"):
        return _rate("samples_per_second", 1 / stated["sample_time"], "1 / time per sample")
    if stated.get("total_time") and n_samples and n_epochs:
        rate = n_samples * n_epochs / stated["total_time"]
        return _rate("samples_per_second", rate, "samples x epochs / time")
    return None


def _tokens_per_second(configuration: dict[str, Any], stated: dict[str, float]) -> Figure | None:
    if "tokens_per_second" in stated or "samples_per_second" not in stated:
        return None
    seq_len = configuration.get("seq_len")
    if seq_len is None or configuration.get("length_distribution") != "full":
        return None
    rate = stated["samples_per_second"] * seq_len
    return _rate("tokens_per_second", rate, "samples per second x sequence length, all full")


def _rate(metric: str, value: float, reason: str) -> Figure:
    return {
        "metric": metric,
        "statistic": "value",
        "scope": "total",
        "value": value,
        "origin": "derived",
        "reason": reason,
    }
