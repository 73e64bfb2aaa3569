"""``registry add``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.errors import SourceError, SubmissionError
from registry.reading.bounded_file import ReadingError, open_regular, walk_folder
from registry.reading.json_reader import (
    LARGEST_DOCUMENT,
    check_values,
    has_many_values,
    parse_json,
    read_text,
)
from registry.store.add import Added, add_submissions
from registry.store.folder import Folder
from registry.text import format_count
from registry_cli import console
from registry_cli.group import HintedChoice
from registry_cli.options import locate, registry_option

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.store.folder import Location

#: What ``--from`` can name; a test checks that it matches the importers.
KINDS = (
    "auto",
    "submission",
    "tables",
    "hf-trainer",
    "llama-factory",
    "ms-swift",
    "peft",
    "fms-acceleration",
    "axolotl",
    "torchtune",
    "mlx-lm",
    "litgpt",
    "llama-recipes",
    "mlperf",
    "optimum-benchmark",
    "optimum-habana",
    "milabench",
    "notebook",
    "deeplearning-examples",
    "deepspeed",
    "megatron",
    "nanotron",
    "torchtitan",
    "maxtext",
    "verl",
    "xtuner",
    "paddlenlp",
    "trainer-log",
    "csv",
)

#: Keys of a submission that no log has.
_TOP_LEVEL = ("observations", "retractions", "schema_version", "source")

_ID_DIGITS = 12

#: Characters at the beginning of a file that tell whether it is a submission.
_HEAD = 4096

#: Most names in a folder that are looked at for files that are not read, and most that are named.
_MOST_WALKED = 20_000
_MOST_NAMED = 3

Documents = Iterable[tuple[str, Any]]


@click.command(name="add")
@click.argument("files", nargs=-1, required=True, metavar="FILE…|-")
@click.option(
    "--from",
    "kind",
    type=HintedChoice(KINDS),
    default="auto",
    show_default=True,
    help="What the files are; auto recognizes them by their content.",
)
@click.option(
    "--set",
    "overrides",
    metavar="COLUMN=VALUE",
    multiple=True,
    help="State what a log does not say, such as gpu_id=rtx-4090; repeatable.",
)
@click.option(
    "--mapping",
    metavar="M.yaml",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="Mapping for your own CSV file (with --from csv).",
)
@click.option("--dry-run", is_flag=True, help="Validate, and show what would be recorded.")
@click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON lines.")
@registry_option
def command(
    files: tuple[str, ...],
    *,
    kind: str,
    overrides: tuple[str, ...],
    mapping: Path | None,
    dry_run: bool,
    as_json: bool,
    registry_path: Path | None,
) -> None:
    """Record measurements: submissions, logs and results of frameworks, exports.

    A submission is a JSON document (or JSON lines), or a folder of them; - reads it from standard
    input. Logs and results, as files or a run's folder, are recognized by their content. Everything
    is validated first: if anything is wrong, nothing is recorded. Adding the same document again
    changes nothing.

    \b
    Examples:
      registry add tests/examples/valid/minimal.json --dry-run
      registry add output/checkpoint-500 --set gpu_id=rtx-4090
    """  # noqa: D301 - \b keeps the examples' lines
    location = locate(registry_path)
    if kind == "tables" or (kind == "auto" and all(map(_is_export, files))):
        _add_exports(location, files, dry_run=dry_run)
        return
    documents = _read_submissions(files, kind)
    if documents is None:
        from registry_cli.importing import import_logs  # noqa: PLC0415 - only for logs

        documents = import_logs(location, files, kind, overrides, mapping)
    elif overrides:
        raise click.UsageError("--set states what a log does not say; a submission says it itself")
    for added in add_submissions(location, documents, dry_run=dry_run):
        _report(added, dry_run=dry_run, as_json=as_json)
    if not dry_run:
        _note_added(files)


def _note_added(files: tuple[str, ...]) -> None:
    """Have the folders of killed runs among the files named no more."""
    for folder in filter(Path.is_dir, map(Path, files)):
        from registry.measure.running.records_folder import note_added  # noqa: PLC0415 - only for folders

        note_added(folder.resolve())


def _is_export(name: str) -> bool:
    return (Path(name) / "manifest.json").is_file()


def _add_exports(location: Location, files: tuple[str, ...], *, dry_run: bool) -> None:
    from registry.store.exported import read_exported  # noqa: PLC0415 - heavy

    for name in files:
        documents = read_exported(Path(name))
        found = add_submissions(location, documents, dry_run=dry_run, leaves_curated=True)
        new = [added for added in found if added.is_new]
        # what is reported several times is one observation
        n_new, n_all = (
            len({key for added in some for key in added.observation_ids}) for some in (new, found)
        )
        verb = "would add" if dry_run else "added"
        submissions = format_count(len(new), "submission")
        console.say(f"{verb} {n_new} of {n_all} observations of {name}, in {submissions}")
        if n_left := sum(added.is_curated and not added.is_new for added in found):
            console.hint(
                f"{name}: {format_count(n_left, 'submission')} not added, because the curated "
                "records hold the same; to keep one of your own here too, add it as JSON"
            )


def _read_submissions(files: tuple[str, ...], kind: str) -> Documents | None:
    """Return the documents of the files, or None if they are something else to be imported."""
    if kind not in ("auto", "submission"):
        return None
    documents: list[Documents] = []
    for name in files:
        found = _read_file(name, is_submission=kind == "submission")
        if found is None:
            return None
        documents.append(found)
    return chain.from_iterable(documents)


#: How names of files begin in which a recorder left a training.
_RECORDED = ("registry-", "record-")


def _read_file(name: str, *, is_submission: bool) -> Documents | None:
    if name == "-":
        return _parse(read_text(sys.stdin.buffer, origin="standard input"), "standard input")
    path = Path(name)
    if not name or not path.exists():
        raise click.BadParameter(f"{name or repr(name)}: no such file", param_hint="FILE")
    if path.is_dir():
        return _read_folder(path, is_submission=is_submission)
    if path.name.startswith(_RECORDED) and path.suffix == ".jsonl":
        return _require(_read_growing(str(path), [path]), path)
    text = _read_text(path)
    if is_submission or _looks_like_submission(text):
        return _parse(text, name)
    return None


def _read_folder(path: Path, *, is_submission: bool) -> Documents | None:
    """Return the documents of a folder of submissions, read as they are asked for."""
    if (recovered := _recover(path)) is not None:
        return recovered
    growing = [file for name in _RECORDED for file in path.glob(f"{name}*.jsonl")]
    # beside one that grows, a record is what the recorder left too; else any document is called so
    names = _RECORDED if growing else _RECORDED[:1]
    complete = sorted(file for name in names for file in path.glob(f"{name}*.json"))
    if growing or complete:  # what a recorder left in a training's output folder, or its parent
        _tell_passed_over(path, {*growing, *complete}, beside_training=True)
        parsed = (each for file in complete for each in _parse(_read_text(file), str(file)))
        left = _read_growing(str(path), growing)
        return chain(parsed, left) if complete else _require(left, path)
    files = sorted(path.glob("*.json*"))
    found = _read_file(str(files[0]), is_submission=is_submission) if files else None
    if found is None:
        return None
    _tell_passed_over(path, set(files), beside_training=False)
    return (document for file in files for document in _parse(_read_text(file), str(file)))


def _tell_passed_over(folder: Path, read: set[Path], *, beside_training: bool) -> None:
    """Say which files of JSON in a folder are not read; of a training's, only submissions."""
    left_out: list[Path] = []
    passed: list[Path] = []
    registries: list[Path] = []
    for place, names in walk_folder(folder, left_out, most=_MOST_WALKED):
        if Folder(place).is_registry:
            registries.append(place)
        if registries and place.is_relative_to(registries[-1]):
            continue
        files = (place / name for name in names if name.lower().endswith((".json", ".jsonl")))
        passed += (
            file
            for file in files
            if file not in read and (not beside_training or _begins_as_submission(file))
        )
    if not passed:
        return
    named = ", ".join(str(file.relative_to(folder)) for file in passed[:_MOST_NAMED])
    count = f"{'at least ' if left_out else ''}{format_count(len(passed), 'other JSON file')}"
    more = " …" if len(passed) > _MOST_NAMED else ""
    way_out = "name it to add it" if len(passed) == 1 else "name those to add"
    console.hint(f"{folder}: not read: {count}: {named}{more}; {way_out}")


def _begins_as_submission(file: Path) -> bool:
    try:
        with open_regular(file, what="a document") as opened:
            return _names_submission(opened.read(_HEAD).decode(errors="replace"))
    except ReadingError:
        return False


def _recover(folder: Path) -> Documents | None:
    """Return the document of a run that was killed, where a folder is one that it left."""
    from registry.measure.running.records_folder import is_records_folder  # noqa: PLC0415 - only for folders

    if not is_records_folder(folder):
        return None
    from registry.measure.running.wrapped_command import recover_run  # noqa: PLC0415 - likewise

    document = recover_run(folder)
    if document is None:
        raise SourceError(
            f"{folder}: found no training that the killed run recorded; expected one; remove it"
        )
    return [(str(folder), document)]


def _require(documents: list[tuple[str, Any]], path: Path) -> Documents:
    """Return the documents of a file or folder of a recorder's; refuse to add nothing of it."""
    if not documents:
        raise SourceError(
            f"{path}: found no training that can be read; expected what the recorder leaves of a "
            "job's first process, or of one that failed; name another"
        )
    return documents


def _read_growing(name: str, files: list[Path]) -> list[tuple[str, Any]]:
    """Return the documents of trainings that did not come to their end, their ranks united."""
    if not files:
        return []
    from registry.measure.recording.progress import assemble_files, check_ended  # noqa: PLC0415 - only for these

    check_ended(files)
    return [(name, document) for document in assemble_files(files)]


def _read_text(file: Path) -> str:
    return read_text(file, origin=str(file), limit=LARGEST_DOCUMENT)


def _looks_like_submission(text: str) -> bool:
    """Decide by the first object's keys, so that a truncated submission is seen as one."""
    if not text.lstrip().startswith(("{", "[")):
        return False
    if has_many_values(text):
        return True  # which is not read either
    try:
        document = json.loads(text)
    except ValueError:
        return _names_submission(text[:_HEAD] + text.split("\n", 1)[0][:65_536])
    except RecursionError:
        return True
    if isinstance(document, list):
        document = document[0] if document else {}
    return isinstance(document, dict) and not {*_TOP_LEVEL}.isdisjoint(document)


def _names_submission(head: str) -> bool:
    keys = ("observations", "retractions", "schema_version", "source_id")
    return any(f'"{key}"' in head for key in keys)


def _parse(text: str, origin: str) -> Documents:
    """Return the documents of a text: one object, a list of objects, or one object a line."""
    check_values(text, origin=origin)
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) > 1 and all(
        line.startswith("{") and line.rstrip().endswith("}") for line in lines
    ):
        return list(_parse_lines(text, origin))
    document = parse_json(text, origin=origin)
    if isinstance(document, list):
        if not document:
            raise SubmissionError("an empty list; expected at least one submission", origin=origin)
        return [(f"{origin}, document {n}", item) for n, item in enumerate(document, start=1)]
    return [(origin, document)]


def _parse_lines(text: str, origin: str) -> Iterator[tuple[str, Any]]:
    # no str.splitlines: strings of JSON may hold what it takes for the end of a line
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            place = f"{origin}, line {number}"
            yield place, parse_json(line, origin=place)


def _report(added: Added, *, dry_run: bool, as_json: bool) -> None:
    if as_json:
        row = asdict(added) | {"dry_run": dry_run}
        if not dry_run:
            del row["observations"]  # they are in the registry now
        click.echo(json.dumps(row))
        return
    if added.is_left_out:
        console.warning(
            f"{added.origin}: left out: it erases observations; where this registry has them, "
            "erase with `registry retract ID --erase --reason REASON`"
        )
        return
    verb = ("would add" if dry_run else "added") if added.is_new else "already recorded:"
    named = _name_observations(added.observation_ids, " ")
    console.say(f"{verb} submission {added.submission_id[:_ID_DIGITS]}: {named}")
    if dry_run and added.is_new:
        from registry_cli.dry_run_text import format_dry_run  # noqa: PLC0415 - loads the units

        console.answer(format_dry_run(added.observations))
    if not added.is_new:
        console.hint(f"{added.origin}: nothing changed")
    elif added.is_curated:
        console.hint(f"{added.origin}: the curated records hold it too, so it counts once")
    if added.joins:
        console.warning(
            f"{added.origin}: {added.joins} is a source of the curated records; these observations "
            "count among its own, under its title and address; if they are not from there, state "
            "a source_id of your own"
        )
    if added.is_new and added.withdrawn:
        verb = "would withdraw" if dry_run else "withdraws"
        console.warning(f"{added.origin}: {verb} {_name_observations(added.withdrawn, ': ')}")


def _name_observations(identities: tuple[str, ...], before: str) -> str:
    """Return how many observations there are, and as many of their ids as fit on a line."""
    named = " ".join(identity[:_ID_DIGITS] for identity in identities[:_MOST_NAMED])
    more = " …" if len(identities) > _MOST_NAMED else ""
    return f"{format_count(len(identities), 'observation')}{before}{named}{more}"
