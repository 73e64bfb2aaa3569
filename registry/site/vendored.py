"""The JavaScript of others that the page needs, as it lies in ``vendor/``, and how it is renewed.

``python -m registry.site.vendored`` fetches the versions that ``vendor/vendored.json`` names with
npm, joins the small ones into one file with esbuild, and writes files, licences and hashes.
Building a site needs neither npm nor Node.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

#: What the page loads before its own script, in this order.
SCRIPTS: Final = ("vega.min.js", "vega-lite.min.js", "libraries.min.js")
_COPIED: Final = {
    "vega.min.js": ("vega", "build/vega.min.js"),
    "vega-lite.min.js": ("vega-lite", "build/vega-lite.min.js"),
}
#: What of the small packages is used; they become properties of the global ``libraries``.
_ENTRY: Final = """\
export { parquetReadObjects, parquetRead } from 'hyparquet'
export { parquetWriteBuffer } from 'hyparquet-writer'
export { decompress } from 'fzstd'
export { expressionInterpreter } from 'vega-interpreter'
"""


def read_script(name: str) -> str:
    """Return the text of a vendored script."""
    return (files("registry.site") / "vendor" / name).read_text(encoding="utf-8")


def hash_text(text: str) -> str:
    """Return the SHA-256 of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def renew(folder: Path) -> None:
    """Write the vendored files, their licences and hashes again, from the versions that are named.

    Raises CalledProcessError where npm or esbuild fails.
    """
    document = json.loads((folder / "vendored.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as scratch:
        modules = _install(document, Path(scratch))
        for name, (package, path) in _COPIED.items():
            shutil.copy(modules / package / path, folder / name)
        _bundle(Path(scratch), folder / "libraries.min.js")
        licences = "\n\n".join(map(_format_licence, _collect_shipped(modules)))
        (folder / "LICENSES.txt").write_text(licences, encoding="utf-8")
    document["files"] = {
        name: hash_text((folder / name).read_text(encoding="utf-8"))
        for name in (*SCRIPTS, "LICENSES.txt")
    }
    text = json.dumps(document, indent=1) + "\n"
    (folder / "vendored.json").write_text(text, encoding="utf-8")


def _packages(document: dict[str, Any]) -> list[tuple[str, dict[str, str]]]:
    return sorted(document["packages"].items())


def _install(document: dict[str, Any], scratch: Path) -> Path:
    """Install the named versions, and return the folder that holds them."""
    wanted = [f"{name}@{entry['version']}" for name, entry in _packages(document)]
    wanted += [f"{name}@{version}" for name, version in document["bundler"].items()]
    (scratch / "package.json").write_text("{}", encoding="utf-8")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", *wanted]
    subprocess.run(command, cwd=scratch, check=True)
    return scratch / "node_modules"


def _bundle(scratch: Path, target: Path) -> None:
    (scratch / "entry.js").write_text(_ENTRY, encoding="utf-8")
    options = ["--bundle", "--minify", "--format=iife", "--global-name=libraries"]
    command = ["node_modules/.bin/esbuild", "entry.js", *options, f"--outfile={target.resolve()}"]
    subprocess.run(command, cwd=scratch, check=True, capture_output=True)


#: Beginnings of the names of the packages that the files contain: those above and theirs.
_SHIPPED: Final = ("vega", "d3-", "hyparquet", "fzstd", "topojson", "internmap", "delaunator",
                   "robust-predicates")  # fmt: skip


def _collect_shipped(modules: Path) -> list[Path]:
    """Return the folders of the packages that the files contain."""
    return sorted(path for path in modules.iterdir() if path.name.startswith(_SHIPPED))


def _format_licence(folder: Path) -> str:
    package = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    text = next(folder.glob("LICENSE*")).read_text(encoding="utf-8").strip()
    return f"{package['name']} {package['version']} ({package['license']})\n\n{text}\n"


if __name__ == "__main__":
    renew(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent / "vendor")
