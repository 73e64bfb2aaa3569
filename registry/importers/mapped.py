"""A table of the user's own (CSV, Markdown, HTML), read as a mapping file says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.errors import SubmissionError
from registry.importers.base import Imported, Refusal
from registry.importers.shared.explain import explain_refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.importers.base import ImportOptions, RunFile


class MappedTableImporter:
    """Reads any table through :mod:`registry.tables`; used only where a mapping is given."""

    name = "csv"
    is_single_file = True
    expects = "a table, or text that holds one"

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize a table, or text that may hold one."""
        return [file for file in files if file.kind in ("csv", "text")]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return what the mapping makes of a table; raise SubmissionError without a mapping."""
        from registry.tables import import_document, read_mapping  # noqa: PLC0415 - only where a mapping is given

        if options.mapping is None:
            raise SubmissionError(explain_refusal(files[0]))
        file = files[0]
        result = import_document(file.path, read_mapping(options.mapping), options.catalogue)
        if result.problems:
            return Imported(refused=tuple(Refusal(file.path, text) for text in result.problems))
        taken = f"{file.name}: {result.n_observations} observations of {result.n_rows} rows"
        return Imported((result.submission,), (taken, *result.notes))
