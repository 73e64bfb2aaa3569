"""optimum-habana: the JSON of a model's baselines, which its CI compares new runs with.

Older files are of one model, named by the file, with a device and a data set at the top; since 2025
one file holds a figure for each test, whose name has the model.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import Draft, import_drafts, state_model
from registry.importers.shared.shapes import count_of, number_of, section_of
from registry.importers.shared.training_arguments import state_lora, state_training_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

_DEVICES: Final = {"gaudi": "gaudi", "gaudi1": "gaudi", "gaudi2": "gaudi2", "gaudi3": "gaudi3"}
_CARDS: Final = {"single_card": 1}
_FIGURES: Final = {"train_runtime", "train_samples_per_second"}
#: What stands before the model in the name of a test, and after it.
_TEST: Final = re.compile(
    r"::test_(?:run_)?(?:(?:lora|peft|clm|mlm|glue|squad|qa|summarization|speech|seq2seq|image|sft"
    r"|dpo|reward|ppo|bridgetower|clip|translation|image_classification|prompt_tuning|image2text"
    r"|finetune)_)*(?P<model>.+?)_(?P<cards>single_card|multi_card|deepspeed|fsdp)$"
)
#: What the letters of a method's name or of a baseline's say; names that hold others first.
_METHODS: Final = {
    "multitaskprompttuning": "multitask_prompt_tuning",
    "prompttuning": "prompt_tuning",
    "prefixtuning": "prefix_tuning",
    "ptuning": "p_tuning",
    "lntuning": "ln_tuning",
    "lnexample": "ln_tuning",
    "llamaadapter": "adaption_prompt",
    "ia3": "ia3",
    "adalora": "adalora",
    "vera": "vera",
    "lora": "lora",
}
#: What a test's class tells apart beside the number of its cards.
_SPREAD: Final = re.compile(r"^(?:MultiCard|DeepSpeed|Deepspeed)")
#: Switches that change memory or speed and have no column.
_SWITCHES: Final = frozenset(
    {
        *("attn_softmax_bf16", "dataloader_num_workers", "dataset_concatenation"),
        *("ddp_bucket_cap_mb", "distribution_strategy", "group_by_length", "mediapipe_dataloader"),
        *("non_blocking_data_copy", "pad_to_max_length", "pipelining_fwd_bwd", "use_cache"),
        *("use_hpu_graphs", "use_hpu_graphs_for_training", "use_lazy_mode"),
    }
)
#: Models whose example scripts know no adapters.
_TUNED_IN_FULL: Final = re.compile(
    r"(?i)(bert|roberta|albert|distilbert|gpt2|t5|flan|wav2vec2|vit|swin|whisper|gpt.neox|bridge|clip)"
)

Found = tuple[str, "Mapping[str, Any]", dict[str, Any]]


class OptimumHabanaImporter:
    """Reads the baselines of optimum-habana."""

    name = "optimum-habana"
    is_single_file = True
    expects = "a JSON of baselines with figures of a training below a number of cards or a device"

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize baselines: figures of a training below a number of cards, or below a device."""
        return [file for file in files if file.kind == "json" and any(_baselines(file))]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return a run for each baseline."""
        file = files[0]
        drafts = [_draft(file, found, options) for found in _baselines(file)]
        known = [draft for draft in drafts if _has_model(draft, options)] or drafts
        left = {draft.observation["model_reported"] for draft in drafts if draft not in known}
        if left:
            named = ", ".join(sorted(left))
            known[0].missing.append(f"left out, as the catalogue does not have the model: {named}")
        what = f"{len(known)} of {len(drafts)} optimum-habana baselines"
        return import_drafts(self.name, what, [file], known, options, kind="benchmark")


def _has_model(draft: Draft, options: ImportOptions) -> bool:
    return "model_id" in draft.configuration or "model_id" in options.overrides


def _baselines(file: RunFile) -> Iterator[Found]:
    """Yield the place of each baseline, its figures, and what its place says."""
    document = file.document if isinstance(file.document, dict) else {}
    for name, content in document.items():
        if "::" in str(name):
            yield from _of_test(str(name), content)
        elif name in _DEVICES and isinstance(content, dict):
            for dataset, runs in content.items():
                yield from _of_dataset(str(dataset), runs, str(name))
        else:
            yield from _of_dataset(str(name), content, "gaudi")


def _of_test(test: str, content: Any) -> Iterator[Found]:
    named = _TEST.search(test)
    said = {"model": named["model"] if named else None, "cards": named and named["cards"]}
    for device in _DEVICES:
        figures = section_of(content, device)
        if _FIGURES & figures.keys():
            yield f"{test}, {device}", figures, {**said, "device": device, "text": test}


def _of_dataset(dataset: str, runs: Any, device: str) -> Iterator[Found]:
    shared = {"num_train_epochs": runs.get("num_train_epochs")} if isinstance(runs, dict) else {}
    for cards, figures in section_of(runs, "distribution").items():
        if isinstance(figures, dict) and _FIGURES & figures.keys():
            said = {"device": device, "dataset": dataset, "cards": cards, "text": ""}
            yield f"{dataset}, {device}, {cards}", {**shared, **figures}, said


def _draft(file: RunFile, found: Found, options: ImportOptions) -> Draft:
    place, figures, said = found
    draft = Draft(environment={"framework": "optimum-habana"})
    model = said.get("model") or re.sub(r"^.*__", "", file.path.stem).replace("_", "-")
    state_model(draft, [model], options)
    draft.inferences.setdefault(
        "model_id", "the name of the test" if said.get("model") else "the name of the file"
    )
    args = _arguments(figures.get("extra_arguments"))
    _state_method(draft, args, said["text"] or str(said.get("dataset")), model)
    objective = re.search(r"\b(sft|dpo|reward|ppo)\b", str(said.get("dataset")))
    draft.state("objective", objective and objective[1], "the name of the baseline")
    draft.state("gpu_id", _DEVICES[said["device"]])
    cards = str(said.get("cards"))
    draft.state("n_gpus", _CARDS.get(cards), "single_card")
    draft.state("dataset", said.get("dataset"))
    draft.state("micro_batch_size", count_of(figures.get("train_batch_size")))
    draft.state("seq_len", count_of(args.get("max_seq_length") or args.get("max_source_length")))
    draft.state("context_parallel", count_of(args.get("context_parallel_size")))
    if args.get("fp8") or "FP8" in said["text"]:
        reason = None if args.get("fp8") else "the name of the test"
        draft.state("compute_dtype", "fp8", reason)
    epochs = {} if args.get("max_steps") else {"num_train_epochs": figures.get("num_train_epochs")}
    state_training_arguments(draft, {**args, **epochs})
    settings = {name: args[name] for name in sorted(_SWITCHES & args.keys())}
    if said["text"]:
        settings["test"] = _SPREAD.sub("", said["text"].split("::")[1])
    if settings:
        draft.environment["settings"] = settings
    draft.provenance["arguments"] = figures.get("extra_arguments")
    draft.measure("total_time", figures.get("train_runtime"), unit_reported="s")
    rate = figures.get("train_samples_per_second")
    draft.measure("samples_per_second", rate, reason="warm-up steps left out by optimum-habana")
    draft.observation["run_id"] = place
    if "n_gpus" not in draft.configuration:
        draft.missing.append("no number of cards where a baseline says only multi_card")
    draft.cite(file, place)
    return draft


def _state_method(draft: Draft, args: Mapping[str, Any], text: str, model: str) -> None:
    """State the method by the arguments, else by a test's class or a data set, else its function.

    The function of several tests is test_run_lora_clm or test_run_prompt_tuning_clm.
    """
    rank = args.get("lora_rank") or args.get("lora_r")
    word = _method_in(str(args.get("peft_type") or ""))
    if word is None and rank and args.get("use_peft") is not False:
        state_lora(draft, {**args, "lora_rank": rank}, args.get("lora_target_modules"))
        return
    if word is not None:
        draft.state("method", word)
    elif args.get("use_peft") is False:
        draft.state("method", "full", "use_peft is False")
    elif named := next(filter(None, map(_method_in, text.split("::")[1:] or [text])), None):
        draft.state("method", named, "the name of the baseline")
    elif _TUNED_IN_FULL.match(model):
        draft.state("method", "full", "the examples train models of this size in full")
    else:
        draft.state("method", "unknown", "neither the arguments nor the name tell of adapters")


def _method_in(text: str) -> str | None:
    letters = re.sub(r"[-_ ]", "", text.lower())
    return next((method for name, method in _METHODS.items() if name in letters), None)


def _arguments(texts: Any) -> dict[str, Any]:
    """Return the arguments of a command line, with numbers and truths as such."""
    args: dict[str, Any] = {}
    for text in texts if isinstance(texts, list) else ():
        words = str(text).split()
        if words:
            args[words[0].lstrip("-")] = _argument(" ".join(words[1:]))
    return args


def _argument(text: str) -> Any:
    if text in ("", "True", "False"):
        return text != "False"
    number = number_of(text)
    if number is None:
        return text
    return int(number) if float(number).is_integer() else number
