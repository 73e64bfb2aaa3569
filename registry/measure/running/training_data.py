"""What a trial trains on: full-length random tokens, or the user's own file."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from registry.measure.trial_settings import Settings


class RandomTokens:
    """Sequences of random tokens, all of the full length: nothing is padded, so speed is fair."""

    def __init__(self, n_samples: int, seq_len: int, vocab_size: int, seed: int) -> None:
        self._torch = import_module("torch")
        self._shape = (n_samples, seq_len, vocab_size)
        self._seed = seed

    def __len__(self) -> int:
        """Return the number of sequences."""
        return self._shape[0]

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return one sequence; the same index has the same tokens in every process."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        _, seq_len, vocab_size = self._shape
        generator = self._torch.Generator().manual_seed(self._seed * 1_000_003 + index)
        tokens = self._torch.randint(0, vocab_size, (seq_len,), generator=generator)
        mask = self._torch.ones_like(tokens)
        return {"input_ids": tokens, "labels": tokens, "attention_mask": mask}


def build_dataset(settings: Settings, source: dict[str, Any], vocab_size: int) -> Any:
    """Return the data set of a trial."""
    n_samples = (
        settings.steps * settings.micro_batch_size * settings.grad_accum_steps * settings.n_devices
    )
    if settings.dataset is None:
        return RandomTokens(n_samples, settings.seq_len, vocab_size, settings.seed)
    rows = read_rows(Path(settings.dataset))
    return [_tokens_of(row, settings, source) for row in rows]


def read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file, or of a folder that ``datasets`` wrote."""
    if path.is_dir():
        return list(import_module("datasets").load_from_disk(str(path)))
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def _tokens_of(row: dict[str, Any], settings: Settings, source: dict[str, Any]) -> dict[str, Any]:
    ids = row.get("input_ids")
    if ids is None:
        if source["kind"] != "hub" or "text" not in row:
            raise ValueError(
                f"{settings.dataset}: found the columns {', '.join(row)}; expected input_ids, or "
                "text together with a model of the hub, whose tokenizer is used"
            )
        ids = _tokenizer(source["hf_id"])(row["text"])["input_ids"]
    return {"input_ids": list(ids)[: settings.seq_len]}


_TOKENIZERS: dict[str, Any] = {}


def _tokenizer(name: str) -> Any:
    if name not in _TOKENIZERS:
        auto = import_module("transformers").AutoTokenizer
        _TOKENIZERS[name] = auto.from_pretrained(name, trust_remote_code=False)
    return _TOKENIZERS[name]


def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a batch, padded to its longest row; padding is masked and has no part in the loss."""
    torch = import_module("torch")
    lists = [torch.as_tensor(row["input_ids"]) for row in rows]
    pad = torch.nn.utils.rnn.pad_sequence
    masks = [torch.ones_like(ids) for ids in lists]
    ids = pad(lists, batch_first=True)
    mask = pad(masks, batch_first=True)
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}
