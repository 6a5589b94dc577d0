"""What a model's folder says: the layout that sentence-transformers writes.

    tokenizer.json                      needed
    config.json                         needed: the network's type and sizes
    onnx/model.onnx, model.onnx         the network, or of a BERT: model.safetensors
    modules.json, 1_Pooling/config.json how tokens become one vector; without them, their mean
    sentence_bert_config.json           how many tokens are read
    config_sentence_transformers.json   prompts put before queries and documents
    evervec.json                        ours: {"text": …, "vector": […]}, checked at every start

Nothing in the folder is run, and pickled weights are not read.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from evervec.errors import ConfigError

NETWORKS = ("onnx/model.onnx", "model.onnx", "model.safetensors")
POOLINGS: Mapping[str, Literal["mean", "cls", "max"]] = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean",  # as long as it may be: it is normalised
}
OFFSETS = {"roberta": 2, "xlm-roberta": 2, "camembert": 2, "mpnet": 2}
"""Positions that these networks keep for themselves."""
DOCUMENT_PROMPTS = ("document", "passage", "corpus")
TOKENS_MOST = 8192


@dataclass(frozen=True, slots=True)
class Reading:
    """All that shapes a vector, and the hash of it."""

    network: Path
    network_sha256: str
    tokenizer: bytes
    config: Mapping[str, Any]
    dimension: int
    tokens_max: int
    pooling: Literal["mean", "cls", "max"]
    lowercase: bool
    document: str
    """What is put before a document's text."""
    query: str
    digest: str
    reference: tuple[str, tuple[float, ...]] | None


def read(folder: Path) -> Reading:
    """Read the model's files. Raises ConfigError naming the one that is missing or wrong."""
    config = _needed(folder, "config.json")
    tokenizer = _bytes(folder / "tokenizer.json")
    modules = _modules(folder)
    limits = _optional(folder, "sentence_bert_config.json")
    pooling = _pooling(folder, modules)
    document, query = _prompts(folder, pooling)
    network = _network(folder, config)
    network_sha256 = _hashed(network)
    tokens_max = _tokens_max(folder, config, limits)
    kind = _pooling_kind(folder, pooling)
    lowercase = bool(limits.get("do_lower_case", False))
    size = _size(folder, config)
    shaping = [network_sha256, hashlib.sha256(tokenizer).hexdigest(), config, size]
    shaping += [tokens_max, kind, lowercase, document, query]
    told = json.dumps(shaping, sort_keys=True, ensure_ascii=True)
    return Reading(
        network=network,
        network_sha256=network_sha256,
        tokenizer=tokenizer,
        config=config,
        dimension=size,
        tokens_max=tokens_max,
        pooling=kind,
        lowercase=lowercase,
        document=document,
        query=query,
        digest=hashlib.sha256(told.encode()).hexdigest(),
        reference=_reference(folder, size),
    )


def outside(network: Path) -> list[Path]:
    """Return the files beside an ONNX file that hold weights of it."""
    return sorted(network.parent.glob(f"{network.name}?data*"))


def _network(folder: Path, config: Mapping[str, Any]) -> Path:
    for name in NETWORKS:
        if (folder / name).is_file():
            if name.endswith(".safetensors") and config.get("model_type") != "bert":
                break
            return folder / name
    raise ConfigError(
        f"{folder} has no network that can be read: no {NETWORKS[0]}, no {NETWORKS[1]}, and no "
        f"{NETWORKS[2]} of a BERT (its type is {config.get('model_type')!r})",
        hint=f"export one: pip install optimum[onnx] && optimum-cli export onnx "
        f"--model {folder} --task feature-extraction {folder}/onnx",
    )


def _hashed(network: Path) -> str:
    digest = hashlib.sha256(_bytes(network))
    for path in outside(network):
        digest.update(_bytes(path))
    return digest.hexdigest()


def _modules(folder: Path) -> list[Mapping[str, Any]]:
    if not (folder / "modules.json").exists():
        return []
    modules = _json(folder / "modules.json")
    if not isinstance(modules, list) or not all(isinstance(each, dict) for each in modules):
        raise ConfigError(f"{folder / 'modules.json'} is no list of modules", hint=COPY)
    for module in modules:
        kind = str(module.get("type", "")).rpartition(".")[2]
        if kind not in {"Transformer", "Pooling", "Normalize"}:
            raise ConfigError(
                f"{folder / 'modules.json'} names a module {kind!r}, which is not known here",
                hint="give App a function that calls the model with its own library",
            )
    return modules


def _pooling(folder: Path, modules: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    for module in modules:
        if str(module.get("type", "")).endswith("Pooling"):
            return _needed(folder, f"{module.get('path', '1_Pooling')}/config.json")
    return _optional(folder, "1_Pooling/config.json")


def _pooling_kind(folder: Path, pooling: Mapping[str, Any]) -> Literal["mean", "cls", "max"]:
    named = {"mean": "mean", "cls": "cls", "max": "max"}
    asked = [name for name, on in pooling.items() if name.startswith("pooling_mode_") and on]
    asked = [POOLINGS.get(name, name) for name in asked]
    if isinstance(pooling.get("pooling_mode"), str):
        asked = [named.get(pooling["pooling_mode"], pooling["pooling_mode"])]
    if not asked:
        return "mean"
    for kind in POOLINGS.values():
        if asked == [kind]:
            return kind
    raise ConfigError(
        f"{folder} pools tokens by {' and '.join(asked)}, which is not known here",
        hint="known: the mean of the tokens, the first one (cls), the largest (max)",
    )


def _prompts(folder: Path, pooling: Mapping[str, Any]) -> tuple[str, str]:
    written = _optional(folder, "config_sentence_transformers.json")
    prompts = written.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(p, str) for p in prompts.values()):
        raise ConfigError(
            f"{folder / 'config_sentence_transformers.json'}: prompts are not texts by name",
            hint='write {"prompts": {"query": "query: ", "document": "passage: "}}',
        )
    usual = str(prompts.get(written.get("default_prompt_name"), ""))
    document = next((str(prompts[name]) for name in DOCUMENT_PROMPTS if name in prompts), usual)
    query = str(prompts.get("query", usual))
    if (document or query) and pooling.get("include_prompt") is False:
        raise ConfigError(
            f"{folder} leaves its prompts out of the pooling, which is not known here",
            hint="give App a function that calls the model with its own library",
        )
    return document, query


def _tokens_max(folder: Path, config: Mapping[str, Any], limits: Mapping[str, Any]) -> int:
    own = _optional(folder, "tokenizer_config.json").get("model_max_length")
    places = config.get("max_position_embeddings")
    if isinstance(places, int):
        places -= OFFSETS.get(str(config.get("model_type")), 0)
    asked = limits.get("max_seq_length")
    known = [each for each in (asked, own, places) if isinstance(each, (int, float)) and each]
    tokens_max = int(min([TOKENS_MOST, *known])) if known else 512
    if tokens_max < 8:
        raise ConfigError(
            f"{folder} says that its model reads {tokens_max} tokens of a text",
            hint="mend max_seq_length in its sentence_bert_config.json",
        )
    return tokens_max


def _size(folder: Path, config: Mapping[str, Any]) -> int:
    size = config.get("hidden_size", config.get("dim"))
    if not isinstance(size, int) or size < 1:
        raise ConfigError(f"{folder / 'config.json'} has no hidden_size", hint=COPY)
    return size


def _reference(folder: Path, size: int) -> tuple[str, tuple[float, ...]] | None:
    written = _optional(folder, "evervec.json")
    if not written:
        return None
    text, vector = written.get("text"), written.get("vector")
    if not isinstance(text, str) or not isinstance(vector, list) or len(vector) != size:
        raise ConfigError(
            f"{folder / 'evervec.json'} is not a text and its vector of {size} numbers",
            hint='write {"text": "…", "vector": […]}, or leave the file out',
        )
    return text, tuple(float(each) for each in vector)


COPY = "copy the model's folder again; the file may be cut short"


def _needed(folder: Path, name: str) -> Mapping[str, Any]:
    return _object(folder / name)


def _optional(folder: Path, name: str) -> Mapping[str, Any]:
    return _object(folder / name) if (folder / name).exists() else {}


def _object(path: Path) -> Mapping[str, Any]:
    written = _json(path)
    if not isinstance(written, dict):
        raise ConfigError(f"{path} is not a JSON object", hint=COPY)
    return written


def _json(path: Path) -> Any:
    try:
        return json.loads(_bytes(path))
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}", hint=COPY) from error


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the model in {path.parent} needs {path.name}, which cannot be read "
            f"({error.strerror})",
            hint="copy the whole folder of a sentence-transformers model",
        ) from error
