"""What a site is made of: vendored scripts, joined modules, the page and its policy, its tables."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import re
import urllib.error
import urllib.request
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from registry.api import Registry
from registry.errors import StoreError
from registry.predict.answer.prediction import predict_memory
from registry.predict.architecture import architecture_of
from registry.predict.calibration.calibration_file import read_calibration
from registry.site.fit_grid import (
    BATCHES,
    LENGTHS,
    METHODS,
    N_GPUS,
    SETTINGS,
    Sizes,
    build_question,
    predict_job,
)
from registry.site.page import (
    build_assets,
    format_page,
    format_single_page,
    join_modules,
    wrap_module,
)
from registry.site.pictures import KINDS, build_pictures
from registry.site.serve import build_server
from registry.site.tables import collect_shards, format_parquet, read_rows, read_sources
from registry.site.vendored import SCRIPTS, hash_text, read_script
from registry.store.folder import create_registry, find_registry
from registry.store.snapshot import load_catalogue
from tests.unit.charts.fields import find_unknown

if TYPE_CHECKING:
    from collections.abc import Iterator

SITE = Path(__file__).parents[3] / "registry" / "site"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Registry:
    path = tmp_path_factory.mktemp("site") / "registry"
    create_registry(path)
    return Registry(find_registry(path))


def test_vendored_files_are_those_that_were_fetched() -> None:
    vendored = json.loads(read_script("vendored.json"))
    assert set(vendored["files"]) == {*SCRIPTS, "LICENSES.txt"}
    for name, digest in vendored["files"].items():
        assert hash_text(read_script(name)) == digest, f"{name}: python -m registry.site.vendored"
    licences = read_script("LICENSES.txt")
    for name, package in vendored["packages"].items():
        assert f"{name} {package['version']} ({package['licence']})\n" in licences


def test_no_file_of_the_site_is_too_large_for_git() -> None:
    assert max(path.stat().st_size for path in SITE.rglob("*") if path.is_file()) < 2_000_000


def test_modules_are_joined_after_those_that_they_import() -> None:
    script = join_modules()
    names = {path.name for path in (SITE / "page").glob("*.js")}
    joined = re.findall(r"^const (\w+)_js = \(\(\) => \{$", script, re.MULTILINE)
    assert {f"{name}.js" for name in joined} == names
    assert joined[-1] == "main"
    assert joined.index("route") < joined.index("explore") < joined.index("main")
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)


def test_a_module_returns_what_it_exports() -> None:
    text = 'import * as b from "./b.js";\nexport const a = 1;\nexport async function f() {}\n'
    assert wrap_module("x-y.js", text) == (
        "const x_y_js = (() => {\nconst b = b_js;\nconst a = 1;\nasync function f() {}\n"
        "return { a, f };\n})();"
    )
    with pytest.raises(StoreError, match=r"^x\.js: found 'export default 1;'; expected a form"):
        wrap_module("x.js", "export default 1;")


def test_nothing_of_the_page_parses_text_or_reaches_elsewhere() -> None:
    own = "\n".join(path.read_text(encoding="utf-8") for path in (SITE / "page").iterdir())
    for word in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert word not in own, word
    assert not re.search(r"""["'(]https?://""", own)


def test_the_policy_names_the_hash_of_each_script_of_a_single_file() -> None:
    page = format_single_page({"version": "</script><script>alert(1)"}, {"data/x": b"\x00\xff"})
    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    assert policy is not None
    assert "unsafe" not in policy[1]
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == len(SCRIPTS) + 1
    for text in (*scripts, *re.findall(r"<style>(.*?)</style>", page, re.DOTALL)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy[1]
    assert "<script>alert" not in page
    assert f'id="file:data/x">{base64.b64encode(bytes([0, 255])).decode()}<' in page


def test_a_page_of_several_files_names_them_relatively() -> None:
    page = format_page({"version": "1"})
    named = re.findall(r'(?:src|href)="([^"]+)"', page)
    assets = build_assets()
    for path in named:
        assert path in assets or path.startswith(("#", "data:", "data/"))
    assert {f"assets/{name}" for name in (*SCRIPTS, "site.js", "style.css")} <= set(named)


def test_the_rows_hold_every_observation_under_an_id_of_its_own(db: Registry) -> None:
    table = pq.read_table(io.BytesIO(format_parquet(read_rows(db))))
    ids = table["observation_id"].to_pylist()
    known = [row["id"] for row in db.query("select observation_id as id from results").rows()]
    length = len(ids[0])
    assert sorted(ids) == sorted(one[:length] for one in known)
    assert len(set(ids)) == len(ids)
    expected = db.query("select sum(peak_memory_bytes_per_gpu)::double as n from results").rows()
    assert sum(filter(None, table["peak_memory_bytes_per_gpu"].to_pylist())) == expected[0]["n"]


def test_a_series_is_one_configuration_with_several_releases(db: Registry) -> None:
    rows = read_rows(db).to_pylist()
    releases: dict[str, set[str]] = {}
    alike: dict[str, set[tuple[object, ...]]] = {}
    for row in rows:
        if row["series"] is not None:
            releases.setdefault(row["series"], set()).add(row["release"])
            same = (row["model_id"], row["gpu_id"], row["seq_len"], row["framework"])
            alike.setdefault(row["series"], set()).add(same)
    assert len(releases) > 20
    assert min(map(len, releases.values())) > 1
    assert max(map(len, alike.values())) == 1


def test_the_shards_hold_every_observation_in_full(db: Registry) -> None:
    import pyarrow as pa  # noqa: PLC0415 - its codec reads what the page reads

    found: dict[str, Any] = {}
    for name, content in collect_shards(db):
        stream = pa.input_stream(io.BytesIO(content), compression="zstd")
        documents = json.loads(stream.read())
        assert all(identity.startswith(name) for identity in documents)
        found |= documents
    ids = {row["id"] for row in db.query("select observation_id as id from results").rows()}
    assert ids <= set(found)
    assert all(document["observation"]["outcome"] for document in found.values())
    assert not any("source" in document for document in found.values())


def test_sources_come_with_licence_address_and_count(db: Registry) -> None:
    sources = {row["source_id"]: row for row in read_sources(db)}
    (expected,) = db.query(
        "select count(*) as n, any_value(s.url) as url from results as r "
        "inner join sources as s using (source_id) where source_id = 'swift-benchmark'"
    ).rows()
    source = sources["swift-benchmark"]
    assert (source["n"], source["url"]) == (expected["n"], expected["url"])
    assert {"title", "licence"} <= set(source)


def test_the_grid_holds_what_the_predictor_says(db: Registry) -> None:
    model = architecture_of(load_catalogue(db.location).models["llama-3.2-1b"])
    calibration = read_calibration(db)
    values = predict_job(model, "usual", "LoRA", calibration)
    assert len(values) == 4 * len(N_GPUS) * len(LENGTHS) * len(BATCHES)
    sizes = Sizes(n_gpus=4, length=2048, batch=8)
    place = N_GPUS.index(4) * len(LENGTHS) * len(BATCHES)
    place += LENGTHS.index(2048) * len(BATCHES) + BATCHES.index(8)
    found = predict_memory(build_question(model, "usual", "LoRA", sizes), calibration)
    figures = (found.figure.low, found.figure.value, found.figure.high, found.enough)
    assert values[4 * place : 4 * place + 4] == [round(value / 2**20) for value in figures]
    assert set(SETTINGS) == {"open", "usual"}
    assert set(METHODS) == {"LoRA", "QLoRA", "full"}


def test_every_picture_of_the_command_is_there_without_rows() -> None:
    pytest.importorskip("altair", reason="needs the extra [plot]")
    pictures = build_pictures(["LoRA", "rare"])
    for theme in ("light", "dark"):
        for kind in KINDS:
            known = pictures["specifications"][theme][kind]
            assert known
            for specification in known.values():
                assert specification["data"] == {"name": "rows"}
                assert specification["spec"]["layer"]


def test_every_field_of_a_picture_is_a_column_of_the_page(db: Registry) -> None:
    pytest.importorskip("altair", reason="needs the extra [plot]")
    columns = read_rows(db).column_names
    for kind, known in build_pictures(["LoRA"])["specifications"]["light"].items():
        for axes, specification in known.items():
            assert find_unknown(specification, columns) == set(), (kind, axes)


def test_the_page_knows_the_flags_of_an_observation(db: Registry) -> None:
    known = read_rows(db)["flags"].to_pylist()
    expected = db.query(
        "select array_to_string(flags, ', ') as flags from results where len(flags) > 0"
    ).rows()
    assert sorted(filter(None, known)) == sorted(row["flags"] for row in expected) != []
    assert "" not in known


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    folder = tmp_path / "served"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<p>page</p>" * 100)
    (folder / "assets" / "x.parquet").write_bytes(b"PAR1" * 100)
    (tmp_path / "secret").write_text("secret")
    with build_server(folder, 0) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def test_a_served_site_is_compressed_and_lists_nothing(address: str) -> None:
    asked = urllib.request.Request(address, headers={"Accept-Encoding": "gzip"})  # noqa: S310 - http
    with urllib.request.urlopen(asked) as answer:  # noqa: S310 - http
        assert answer.headers["Content-Encoding"] == "gzip"
        assert len(answer.read()) < 200
    with urllib.request.urlopen(f"{address}assets/x.parquet") as answer:  # noqa: S310 - http
        assert answer.headers["Content-Encoding"] is None
        assert len(answer.read()) == 400
    for path in ("assets/", "../secret", "%2e%2e/secret", "%00", "a" * 300, "a" * 300 + ".js"):
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(address + path)  # noqa: S310 - http
        assert error.value.code == 404
        error.value.close()


def test_a_port_that_is_taken_is_named(address: str, tmp_path: Path) -> None:
    port = int(address.rsplit(":", maxsplit=1)[-1].strip("/"))
    with pytest.raises(StoreError, match=rf"^port {port}: .*; name another with --port, or 0"):
        build_server(tmp_path, port)


def luminance(colour: str) -> float:
    """Return the relative luminance of a colour (WCAG 2.2)."""
    shades = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shades]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def read_colours() -> dict[str, dict[str, str]]:
    """Return the colours of the page by theme: those in `@media` are of the dark one."""
    style = build_assets()["assets/style.css"]
    themes: dict[str, dict[str, str]] = {"light": {}, "dark": {}}
    for dark, block in re.findall(r"(@media[^{]*dark\)[^{]*\{\s*)?:root \{([^}]*)\}", style):
        themes["dark" if dark else "light"] |= dict(re.findall(r"--(\w+): (#\w{6})", block))
    return themes


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("text", ["ink", "quiet", "link", "good", "bad", "open"])
def test_text_has_the_contrast_of_level_aa_on_every_ground(theme: str, text: str) -> None:
    colours = read_colours()[theme]
    for ground in ("ground", "panel"):
        assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marks_have_a_contrast_of_three_to_one(theme: str) -> None:
    colours = read_colours()[theme]
    marks = {name: shade for name, shade in colours.items() if re.fullmatch(r"c\d", name)}
    assert len(marks) == 9
    for name, shade in marks.items():
        assert contrast(shade, colours["ground"]) >= 3, name
