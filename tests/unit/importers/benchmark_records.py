"""Write the curated records of two published benchmarks from copies of their files.

Only figures and settings are recorded, with the place each is from; the files stay where they are
published. ``python -m tests.unit.importers.benchmark_records COPIES`` writes them into ``records``.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError
from registry.importers import read_files
from registry.importers.base import ImportOptions
from registry.submission.prepare import Prepared, prepare_submission
from registry.tables.curated import SUBMISSIONS_NAME, load_curated_catalogue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.catalogue import Catalogue

_PEFT: Final = {
    "title": "PEFT method comparison, MetaMathQA",
    "url": "https://github.com/huggingface/peft/tree/main/method_comparison/MetaMathQA/results",
    "publisher": "Hugging Face",
    "licence": "Apache-2.0",
}
_PEFT_EARLIER: Final = {
    **_PEFT,
    "title": "PEFT method comparison, MetaMathQA (2025-06)",
    "published_on": "2025-06",
}
_FMS: Final = {
    "title": "fms-acceleration benchmarks",
    "url": "https://github.com/foundation-model-stack/fms-acceleration/tree/main/scripts/benchmarks",
    "publisher": "foundation-model-stack",
    "licence": "Apache-2.0",
    "revision": "876e2ed6",
    "published_on": "2026-01-30",
}

_FMS_REASON: Final = "constant column left out of the table: defaults.yaml, scenarios"
_FMS_DEFAULTS: Final = {"seq_len": "4096", "gradient_checkpointing": "true", "attention": "flash2"}
_REFS: Final = {**_FMS_DEFAULTS, "grad_accum_steps": "1", "dataset": "yahma/alpaca-cleaned"}
_ORCA: Final = {
    **_FMS_DEFAULTS,
    "grad_accum_steps": "2",
    "dataset": "microsoft/orca-math-word-problems-200k",
}
_MISTRAL: Final = {"model_id": "mistral-7b"}


def write_benchmark_records(samples: Path, records: Path) -> dict[str, int]:
    """Write ``submissions.jsonl`` of each benchmark; return the observations of each source.

    ``samples`` holds ``peft_method_comparison``, ``peft_method_comparison_2025-06`` and
    ``fms_acceleration``; ``records`` holds the catalogue and takes the result.
    """
    catalogue = load_curated_catalogue(records)
    newer = ImportOptions(catalogue=catalogue, overrides={**_PEFT, "revision": "5d602fdb"})
    earlier = ImportOptions(catalogue=catalogue, overrides=_PEFT_EARLIER)
    found = {
        "peft-method-comparison": _read([samples / "peft_method_comparison"], "peft", newer),
        "peft-method-comparison-2025-06": _read(
            [samples / "peft_method_comparison_2025-06"], "peft", earlier
        ),
        "fms-acceleration": _read_fms(samples / "fms_acceleration", catalogue),
    }
    return {
        source_id: _write(records / "sources" / source_id, source_id, documents, catalogue)
        for source_id, documents in found.items()
    }


def _read_fms(folder: Path, catalogue: Catalogue) -> Iterator[dict[str, Any]]:
    """Read the tables under their published names: the copy has their folder in the name."""
    with TemporaryDirectory() as temporary:
        for file in sorted(folder.iterdir()):
            parent, _, name = file.name.partition("__")
            (Path(temporary) / parent).mkdir(exist_ok=True)
            shutil.copyfile(file, Path(temporary) / parent / name)
        for path in sorted(Path(temporary).glob("*/*.csv")):
            is_orca = path.parent.name == "refs_orca"
            options = ImportOptions(
                catalogue=catalogue,
                overrides=_FMS | (_MISTRAL if path.stem.endswith("_mp") else {}),
                defaults=_ORCA if is_orca else _REFS,
                reason=_FMS_REASON,
            )
            beside = path.parent.glob("requirements*.txt")
            yield from _read([path, *beside], "fms-acceleration", options)


def _read(paths: list[Path], kind: str, options: ImportOptions) -> Iterator[dict[str, Any]]:
    found = read_files(paths, kind, options=options)
    wrong = [f"{refusal.path.name}: {refusal.reason}" for refusal in found.refused]
    if wrong and not found.submissions:
        raise SubmissionError(wrong, origin=kind)
    yield from found.submissions


def _write(
    folder: Path, source_id: str, documents: Iterator[dict[str, Any]], catalogue: Catalogue
) -> int:
    prepared = [_prepare(document, source_id, catalogue) for document in documents]
    prepared.sort(key=lambda item: item.document["source"]["title"] + item.text)
    folder.mkdir(parents=True, exist_ok=True)
    text = "".join(f"{item.text}\n" for item in prepared)
    (folder / SUBMISSIONS_NAME).write_text(text, encoding="utf-8")
    return sum(len(item.document["observations"]) for item in prepared)


def _prepare(document: dict[str, Any], source_id: str, catalogue: Catalogue) -> Prepared:
    """Return the canonical submission; all submissions of a source state it alike."""
    source = {key: text for key, text in document["source"].items() if key != "sha256"}
    document = {**document, "source": {**source, "source_id": source_id}}
    return prepare_submission(document, catalogue, origin=source_id)


if __name__ == "__main__":
    print(write_benchmark_records(Path(sys.argv[1]), Path("records")))  # noqa: T201 - its answer
