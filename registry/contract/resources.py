"""Where the files of the contract are, and how they are read."""

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
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "schemas", package.parent / "schemas"):
        if (folder / "units.yaml").is_file():
            return folder
    raise ContractError(
        f"{package}: found no folder 'schemas' with 'units.yaml' inside or beside the package, "
        "expected the contract there; install the package again"
    )


@lru_cache(maxsize=64)
def read_yaml(name: str) -> Any:
    """Read a YAML file of the contract once; ``name`` is relative to ``schemas_dir()``.

    The object is shared between callers: do not change it.

    Raises:
        ContractError: the file is missing, unreadable or not YAML.
    """
    import yaml  # noqa: PLC0415 - slow to load, and most queries need no part of the contract

    path = schemas_dir() / name
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
    """Return the document in a YAML text; raise yaml.YAMLError where it is not valid."""
    import yaml  # noqa: PLC0415 - as above

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)  # noqa: S506 - both are safe loaders
