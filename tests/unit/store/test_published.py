"""What lies beside the tables of an export: each by our own look, and by its own tool."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import registry
from registry.contract import TABLES
from registry.contract.resources import parse_yaml
from registry.store.export import export_folder
from registry.store.folder import create_registry
from tests.unit.store.registries import build_document

if TYPE_CHECKING:
    from collections.abc import Iterator

URL = "https://example.org/data"
HOSTILE = "<b>MIT</b> | [x](javascript:alert(1))\n# not a heading"
RECORDS = Path(__file__).parents[3] / "records"
CROISSANT_TYPES = {
    "sc:Text": pa.types.is_string,
    "sc:Integer": pa.types.is_integer,
    "sc:Float": pa.types.is_floating,
    "sc:Boolean": pa.types.is_boolean,
    "sc:Date": pa.types.is_timestamp,
}


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return an export of four runs: three sources, one without a licence and one hostile."""
    folder = tmp_path_factory.mktemp("published")
    db = registry.open(create_registry(folder / "registry", curated=False).path)
    for number, source in enumerate(
        (
            {"source_id": "open", "url": "https://example.org/open", "licence": "MIT"},
            {"source_id": "open", "url": "https://example.org/open", "licence": "MIT"},
            {"source_id": "silent", "url": "http://example.org/silent"},
            {"source_id": "hostile", "url": "https://x.org/a) [b](c", "licence": HOSTILE},
        )
    ):
        db.add({**build_document(number), "source": source})
    export_folder(db.location, folder / "out", url=URL)
    return folder / "out"


@pytest.fixture(scope="module")
def croissant(out: Path) -> dict[str, Any]:
    """Return the Croissant document."""
    document: dict[str, Any] = json.loads((out / "croissant.json").read_text(encoding="utf-8"))
    return document


def read_schemas(out: Path) -> dict[str, pa.Schema]:
    return {path.stem: pq.read_schema(path) for path in out.glob("*.parquet")}


def test_results_have_a_file_with_units_and_meanings(out: Path) -> None:
    table = pq.read_table(out / "results.parquet")
    assert table["observation_id"].to_pylist() == sorted(table["observation_id"].to_pylist())
    assert table.num_rows == 4
    assert [field.name for field in table.schema if not field.metadata] == []
    assert table.schema.field("peak_memory_bytes").metadata[b"unit"] == b"byte"
    assert table.schema.field("observed_at").type == pa.timestamp("us", tz="UTC")


def test_the_wide_file_holds_what_the_view_says(tmp_path: Path) -> None:
    export_folder(registry.open(RECORDS).location, tmp_path / "curated")
    found = pq.read_table(tmp_path / "curated" / "results.parquet")
    expected = registry.open(RECORDS).query("from results order by observation_id").arrow()
    assert found.to_pylist() == expected.to_pylist()


def test_croissant_has_the_context_that_its_specification_prescribes(
    croissant: dict[str, Any],
) -> None:
    own = (
        "citeAs column equivalentProperty samplingRate extract field fileObject fileProperty "
        "fileSet format includes isLiveDataset jsonPath key md5 parentField path recordSet "
        "references regex repeated replace separator source subField transform"
    )
    assert croissant["@context"] == {
        "@language": "en",
        "@vocab": "https://schema.org/",
        "sc": "https://schema.org/",
        "cr": "http://mlcommons.org/croissant/",
        "rai": "http://mlcommons.org/croissant/RAI/",
        "dct": "http://purl.org/dc/terms/",
        "conformsTo": "dct:conformsTo",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "examples": {"@id": "cr:examples", "@type": "@json"},
        **{term: f"cr:{term}" for term in own.split()},
    }


def test_croissant_says_of_each_part_what_it_is(croissant: dict[str, Any]) -> None:
    records = croissant["recordSet"]
    assert croissant["@type"] == "sc:Dataset"
    assert croissant["creator"]["@type"] == "Organization"
    assert {each["@type"] for each in croissant["distribution"]} == {"cr:FileObject"}
    assert {each["@type"] for each in records} == {"cr:RecordSet"}
    assert {field["@type"] for each in records for field in each["field"]} == {"cr:Field"}


def test_croissant_names_every_column_with_its_type_and_no_other(
    out: Path, croissant: dict[str, Any]
) -> None:
    described = {
        each["name"]: {field["name"]: field for field in each["field"]}
        for each in croissant["recordSet"]
    }
    schemas = read_schemas(out)
    assert {name: list(fields) for name, fields in described.items()} == {
        name: schemas[name].names for name in described
    }
    assert described.keys() == {*TABLES, "results"}
    for name, fields in described.items():
        for column, field in fields.items():
            kind = schemas[name].field(column).type
            is_list = pa.types.is_list(kind)
            assert field.get("repeated", False) == is_list
            assert CROISSANT_TYPES[field["dataType"]](kind.value_type if is_list else kind)


def test_croissant_names_every_file_with_its_hash(out: Path, croissant: dict[str, Any]) -> None:
    manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))["tables"]
    assert {each["contentUrl"]: each["sha256"] for each in croissant["distribution"]} == {
        entry["file"]: entry["sha256"] for entry in manifest.values()
    }


def test_croissant_refers_only_to_fields_that_there_are(croissant: dict[str, Any]) -> None:
    fields = [field for each in croissant["recordSet"] for field in each["field"]]
    known = {field["@id"] for field in fields}
    referred = {field["references"]["field"]["@id"] for field in fields if "references" in field}
    assert "configurations/configuration_id" in referred
    assert referred <= known
    assert {key["@id"] for each in croissant["recordSet"] for key in each["key"]} <= known


def read_front_matter(out: Path) -> dict[str, Any]:
    _, front, _ = (out / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    found: dict[str, Any] = parse_yaml(front)
    return found


def test_the_card_has_a_configuration_for_each_table_with_rows(out: Path) -> None:
    configs = read_front_matter(out)["configs"]
    filled = {path.stem for path in out.glob("*.parquet") if pq.read_metadata(path).num_rows}
    assert {each["config_name"]: each["data_files"] for each in configs} == {
        name: f"{name}.parquet" for name in filled
    }
    assert [each["config_name"] for each in configs if each.get("default")] == ["results"]
    assert "retractions" not in filled


def test_the_licence_of_each_source_is_shown_and_nothing_is_taken_for_markup(
    out: Path, croissant: dict[str, Any]
) -> None:
    front = read_front_matter(out)
    assert (front["license"], front["license_name"]) == ("other", "each-source-keeps-its-own")
    lines = (out / "README.md").read_text(encoding="utf-8").splitlines()
    assert "| [open](https://example.org/open) | 2 | MIT |" in lines
    assert "| [silent](http://example.org/silent) | 1 | none stated |" in lines
    (hostile,) = [line for line in lines if line.startswith("| hostile")]
    assert hostile == (
        r"| hostile https://x.org/a) \[b\](c | 1 | &lt;b&gt;MIT&lt;/b&gt; \| "
        r"\[x\](javascript:alert(1)) # not a heading |"
    )
    assert croissant["license"] == sorted(["MIT", HOSTILE])


def test_the_citation_has_version_day_and_address(out: Path) -> None:
    citation = parse_yaml((out / "CITATION.cff").read_bytes())
    assert json.loads((out / "croissant.json").read_text("utf-8"))["url"] == URL
    assert citation["version"] == registry.__version__
    assert date.fromisoformat(citation["date-released"])
    assert citation["url"] == URL
    own = parse_yaml((RECORDS.parent / "CITATION.cff").read_bytes())
    day = {"date-released": citation["date-released"]}  # of the export, not of the release
    assert {**citation, **own, **day} == citation


def test_an_export_of_an_unknown_address_names_none(tmp_path: Path) -> None:
    db = registry.open(create_registry(tmp_path / "registry", curated=False).path)
    db.add(build_document(0))
    export_folder(db.location, tmp_path / "out")
    assert "url" not in parse_yaml((tmp_path / "out" / "CITATION.cff").read_bytes())
    assert "url" not in json.loads((tmp_path / "out" / "croissant.json").read_text("utf-8"))


@pytest.mark.filterwarnings("default")
def test_mlcroissant_finds_it_valid_and_reads_rows(out: Path, caplog: Any) -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed")
    dataset = mlcroissant.Dataset(str(out / "croissant.json"))
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
    rows: Iterator[dict[str, Any]] = iter(dataset.records("results"))
    assert next(rows)["results/observation_id"]


def test_datasets_loads_each_configuration_offline(out: Path, tmp_path: Path) -> None:
    pytest.importorskip("datasets", reason="datasets is not installed")
    code = (
        "import sys, datasets\n"
        "for name in datasets.get_dataset_config_names(sys.argv[1]):\n"
        "    print(name, datasets.load_dataset(sys.argv[1], name, split='train').num_rows)\n"
    )
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", code, str(out)],
        env={**os.environ, **offline}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = dict(line.split() for line in done.stdout.splitlines())
    assert found["results"] == "4"
    assert len(found) == len(read_front_matter(out)["configs"])


@pytest.mark.parametrize("which", ["export", "checkout"])
def test_cffconvert_finds_the_citation_valid(out: Path, which: str) -> None:
    command = os.environ.get("CFFCONVERT") or shutil.which("cffconvert")
    if command is None:
        pytest.skip("cffconvert is not installed (it pins an old jsonschema: give it its own venv)")
    folder = out if which == "export" else RECORDS.parent
    done = subprocess.run(
        [command, "--validate", "-i", str(folder / "CITATION.cff")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
