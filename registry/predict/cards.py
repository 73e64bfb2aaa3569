"""The cards that a name means: one of the catalogue, the kinds of a family, one by its memory."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from registry.errors import QuestionError, UnitError
from registry.predict.architecture import Accelerator, gpu_of
from registry.predict.question import NAMED_BY_MEMORY
from registry.units import parse_memory

if TYPE_CHECKING:
    from registry.catalogue import Catalogue


def parse_vram(stated: object) -> Accelerator:
    """Return a card that is known by its memory alone; raise QuestionError for no amount."""
    size = str(stated)
    try:
        memory = parse_memory(size, where="vram").value
    except UnitError as error:
        if size.strip().replace(".", "", 1).isdigit():
            like = size.strip() if 0 < float(size) < _LARGEST_GIBIBYTES else "24"
            raise QuestionError(
                f"vram: found {size!r}, expected an amount of memory with its unit, such as "
                f"{like}GiB"
            ) from None
        raise QuestionError(str(error)) from None
    if memory < _SMALLEST:
        raise QuestionError(f"vram: found {size!r}; expected the memory of a card, such as 15GiB")
    return Accelerator(gpu_id=f"{NAMED_BY_MEMORY}{size.strip()}", memory_bytes=memory)


_SMALLEST = 2**30

#: Larger numbers without a unit are no GiB of a card.
_LARGEST_GIBIBYTES = 4096


def find_kinds(name: str, catalogue: Catalogue) -> list[Accelerator]:
    """Return the card that a name means, or the kinds of a family whose memory is known."""
    family = find_family(name, catalogue)
    return [find_gpu(name, catalogue)] if family is None else all_gpus(catalogue, family)


def find_gpu(name: str, catalogue: Catalogue) -> Accelerator:
    """Return an accelerator of the catalogue; raise QuestionError for an unknown one.

    Also for a family of cards whose memory differs.
    """
    if catalogue.resolve_gpu(name) is None:
        problem = catalogue.unknown_gpu(name).split("; to add")[0]
        several = _SEVERAL.fullmatch(name.strip().lower())
        if several and catalogue.resolve_gpu(several["gpu"]):
            problem += f"; of several cards, say --gpu {several['gpu']} --gpus {several['n']}"
        kinds = [kind.strip() for kind in name.split(",")]
        if len(kinds) > 1 and all(map(catalogue.resolve_gpu, kinds)):
            problem += f"; to compare cards, say {' '.join(f'--gpu {kind}' for kind in kinds)}"
        raise QuestionError(f"{problem}; or give its memory: --vram 24GiB")
    row = find_gpu_row(name, catalogue)
    kinds = sorted(gpu.gpu_id for gpu in all_gpus(catalogue, row["gpu_id"]))
    if not row.get("memory_bytes") and kinds:
        raise QuestionError(
            f"gpu {name!r}: a family of cards whose memory differs; expected one of "
            f"{', '.join(kinds)}"
        )
    return gpu_of(row)


_SEVERAL = re.compile(r"(?P<n>\d{1,4}) ?[x*] ?(?P<gpu>.+)")


def find_gpu_row(name: str, catalogue: Catalogue) -> dict[str, Any]:
    """Return the catalogue's row of an accelerator; raise QuestionError for an unknown one."""
    found = catalogue.resolve_gpu(name)
    if found is None:
        raise QuestionError(catalogue.unknown_gpu(name).split("; to add")[0])
    return catalogue.gpus[found]


def all_gpus(catalogue: Catalogue, family: str | None = None) -> list[Accelerator]:
    """Return the accelerators whose memory is known: of the catalogue, or of one family of it."""
    ids = catalogue.gpus if family is None else catalogue.kinds_of(family)
    rows = (catalogue.gpus[gpu_id] for gpu_id in ids)
    return [gpu_of(row) for row in rows if row.get("memory_bytes")]


def find_family(name: str | None, catalogue: Catalogue) -> str | None:
    """Return the id of a family of cards whose memory differs, if ``name`` is one."""
    found = catalogue.resolve_gpu(name) if name else None
    if found is None or catalogue.gpus[found].get("memory_bytes"):
        return None
    return found if len(catalogue.kinds_of(found)) > 1 else None


def common_gpus(catalogue: Catalogue) -> list[Accelerator]:
    """Return the cards to name where none is asked about.

    Somebody read their memory in a source and their speed is known. A card stands for its kinds of
    the same memory, where its own speed is known.
    """
    known = {gpu.gpu_id: gpu for gpu in all_gpus(catalogue) if _is_common(gpu)}
    parents = {name: known.get(str(catalogue.gpus[name].get("family_id"))) for name in known}
    return [
        gpu
        for name, gpu in known.items()
        if (parent := parents[name]) is None or parent.memory_bytes != gpu.memory_bytes
    ]


def _is_common(gpu: Accelerator) -> bool:
    return gpu.verified is not False and gpu.peak_flops(None) is not None
