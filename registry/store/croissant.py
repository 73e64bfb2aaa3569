"""Croissant metadata of an export (mlcommons.org/croissant/1.0): its files, columns and keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from registry.contract import TABLES, load_table
from registry.contract.descriptions import describe_relation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.store.published import Exported

Row = dict[str, Any]

_TYPES = {
    pa.string(): "sc:Text",
    pa.int64(): "sc:Integer",
    pa.int32(): "sc:Integer",
    pa.float64(): "sc:Float",
    pa.bool_(): "sc:Boolean",
    pa.timestamp("us", tz="UTC"): "sc:Date",
    pa.list_(pa.string()): "sc:Text",
}

#: The context that the specification prescribes.
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "equivalentProperty": "cr:equivalentProperty",
    "samplingRate": "cr:samplingRate",
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def describe_dataset(exported: Exported, citation: Row) -> Row:
    """Return the Croissant document of an export."""
    licences = sorted({row["licence"] for row in exported.sources if row["licence"]})
    return {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "peft-registry",
        "description": citation["abstract"],
        "version": citation["version"],
        "datePublished": exported.day,
        "license": licences or ["CC-BY-4.0"],
        "keywords": list(citation["keywords"]),
        "creator": {"@type": "Organization", "name": citation["authors"][0]["name"]},
        "citeAs": _format_bibtex(citation),
        **({"url": exported.url} if exported.url else {}),
        "distribution": [_file(exported, name) for name in exported.schemas],
        "recordSet": [_record_set(exported, name) for name in exported.schemas],
    }


def _format_bibtex(citation: Row) -> str:
    return (
        f"@misc{{peft-registry, title={{{citation['title']}}}, "
        f"author={{{{{citation['authors'][0]['name']}}}}}, "
        f"year={{{citation['date-released'][:4]}}}, version={{{citation['version']}}}}}"
    )


def _file(exported: Exported, name: str) -> Row:
    return {
        "@type": "cr:FileObject",
        "@id": f"{name}.parquet",
        "name": f"{name}.parquet",
        "description": describe_relation(name),
        "contentUrl": f"{name}.parquet",
        "encodingFormat": "application/x-parquet",
        "sha256": exported.digests[name],
    }


def _record_set(exported: Exported, name: str) -> Row:
    key = load_table(name).key if name in TABLES else ("observation_id",)
    return {
        "@type": "cr:RecordSet",
        "@id": name,
        "name": name,
        "description": describe_relation(name),
        "key": [{"@id": f"{name}/{column}"} for column in key],
        "field": list(_fields(name, exported.schemas[name])),
    }


def _fields(name: str, schema: pa.Schema) -> Iterator[Row]:
    references = _references(name)
    for field in schema:
        metadata = field.metadata or {}
        unit = metadata.get(b"unit", b"").decode()
        described = metadata.get(b"meaning", b"").decode() + (f" [{unit}]" if unit else "")
        row: Row = {
            "@type": "cr:Field",
            "@id": f"{name}/{field.name}",
            "name": field.name,
            "description": described,
            "dataType": _TYPES[field.type],
            "source": {
                "fileObject": {"@id": f"{name}.parquet"},
                "extract": {"column": field.name},
            },
        }
        if pa.types.is_list(field.type):
            row["repeated"] = True
        if target := references.get(field.name):
            row["references"] = {"field": {"@id": target}}
        yield row


def _references(name: str) -> dict[str, str]:
    """Return the field that each foreign key refers to."""
    if name not in TABLES:
        return {}
    return {
        column.name: f"{column.references}/{load_table(column.references).key[0]}"
        for column in load_table(name).columns
        if column.references and column.references != name
    }
