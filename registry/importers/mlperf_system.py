"""The JSON in which a submitter of MLPerf describes a system; its values are free text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from registry.importers.shared.shapes import count_of, number_of, section_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.importers.base import ImportOptions
    from registry.importers.shared.draft import Draft


def state_system(draft: Draft, system: Mapping[str, Any], options: ImportOptions) -> None:
    """State the hardware and the software that the description of a system has."""
    name = re.sub(r"\s+\(.*", "", str(system["accelerator_model_name"]))
    inside = re.search(r"\((.*)\)", str(system["accelerator_model_name"]))
    names = [str(system["accelerator_model_name"]), *([inside[1]] if inside else []), name]
    found = next((gpu for each in names if (gpu := _resolve(each, options))), None)
    draft.state("gpu_id", found, f"the system's accelerator: {system['accelerator_model_name']}")
    if found is None:
        draft.lacks["gpu_id"] = f"accelerator {name!r} is not in the catalogue"
    nodes, cards = (_count(system.get(key)) for key in ("number_of_nodes", "accelerators_per_node"))
    draft.state("n_nodes", nodes)
    draft.state("gpus_per_node", cards)
    if nodes and cards:
        draft.state("n_gpus", nodes * cards, "nodes x accelerators of a node")
    stack = system.get("other_software_stack")
    stack = stack[0] if isinstance(stack, list) and stack else stack
    for key, column in (
        ("cuda_version", "cuda_version"),
        ("cuda_driver_version", "driver_version"),
        ("nccl_version", "nccl_version"),
    ):
        version = section_of({"stack": stack}, "stack").get(key)
        if isinstance(version, str) and version:
            draft.environment[column] = version
    for key, column in (("operating_system", "os"), ("host_processor_model_name", "cpu")):
        draft.environment[column] = str(system.get(key) or "") or None
    draft.environment = {key: value for key, value in draft.environment.items() if value}
    draft.provenance["framework"] = system.get("framework")


def _resolve(name: str, options: ImportOptions) -> str | None:
    """Return the card of a name, also one that goes on with its memory or its cooling."""
    words = name.replace(",", " ").split()
    ends = range(len(words), 0, -1)
    return next(
        (gpu for end in ends if (gpu := options.catalogue.resolve_gpu(" ".join(words[:end])))), None
    )


def _count(value: Any) -> int | None:
    number = number_of(value)
    return count_of(int(number)) if number is not None else None
