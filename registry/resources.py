"""Where the files of the contract lie, and how they are read."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

from registry.errors import ContractError


@lru_cache(maxsize=1)
def schemas_dir() -> Path:
    """Return the folder of the contract: inside an installed package, beside it in a checkout.

    The inner place is tried first, because a folder named ``schemas`` beside an installed package
    could be anybody's.

    Raises:
        ContractError: neither place holds the contract.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "schemas", package.parent / "schemas"):
        if (folder / "units.yaml").is_file():
            return folder
    raise ContractError(
        f"{package}: found no folder 'schemas' with 'units.yaml' inside or beside the package, "
        "expected the contract there; install the package again"
    )


def read_yaml(name: str) -> Any:
    """Read a YAML file of the contract once; ``name`` is relative to ``schemas_dir()``.

    The object is shared between callers: do not change it.

    Raises:
        ContractError: the file is missing, unreadable or no YAML.
    """
    documents = _read_contract()
    if name not in documents:
        raise ContractError(
            f"schemas/{name}: found no such file, expected a part of the contract; install the "
            "package again"
        )
    return documents[name]


@lru_cache(maxsize=1)
def _read_contract() -> dict[str, Any]:
    from registry import yaml_cache  # noqa: PLC0415 - light commands need no contract

    folder = schemas_dir()
    documents = yaml_cache.read_cached(folder)
    if documents is None:
        paths = yaml_cache.list_files(folder)
        documents = {path.relative_to(folder).as_posix(): _parse_file(path) for path in paths}
        yaml_cache.write_cache(folder, documents)
    return documents


def _parse_file(path: Path) -> Any:
    import yaml  # noqa: PLC0415 - loaded only where YAML is parsed

    try:
        return parse_yaml(path.read_bytes())
    except OSError as error:
        raise ContractError(
            f"{path}: found no readable file ({error.strerror}), expected a part of the contract; "
            "install the package again"
        ) from error
    except yaml.YAMLError as error:
        raise ContractError(f"{path}: found no valid YAML: {error}") from error


def parse_yaml(text: bytes | str) -> Any:
    """Return the document in a YAML text; raise yaml.YAMLError where it is none."""
    import yaml  # noqa: PLC0415 - light commands that need no contract never load it

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)  # noqa: S506 - both are safe loaders


@lru_cache(maxsize=1)
def curated_dir() -> Path:
    """Return the folder of the curated records, a registry that nobody writes to.

    Raises:
        ContractError: they are neither inside the installed package nor beside it in a checkout.
    """
    package = Path(__file__).resolve().parent
    for folder in (package / "curated", package.parent / "records"):
        if (folder / "tables").is_dir():
            return folder
    raise ContractError(
        f"{package}: found no curated records inside or beside the package, expected them there; "
        "install the package again"
    )
