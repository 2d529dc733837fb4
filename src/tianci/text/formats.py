"""Tokenizer files: what other programs wrote, and what they can read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import tokenizers
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors

from tianci.errors import UserError
from tianci.files import check_file, read_json, read_small
from tianci.text.patterns import check_engine

ROLES = ("pad_token", "unk_token", "cls_token", "sep_token", "mask_token")
# Used only where neither tokenizer_config.json nor special_tokens_map.json names the token.
USUAL = {
    "pad_token": ("[PAD]", "<pad>"),
    "unk_token": ("[UNK]", "<unk>", "<|endoftext|>"),
    "cls_token": ("[CLS]", "<s>"),
    "sep_token": ("[SEP]", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
}
# These classes build their cleaning from tokenizer_config.json even where a tokenizer.json exists.
BERT_CLASSES = {"BertTokenizer", "BertTokenizerFast"}
MOST_TOKENIZER = 256_000_000  # bytes of a tokenizer file; the largest public ones have 40 million
NO_LIMIT = int(1e30)  # what transformers writes for "no limit"


def read(directory: Path) -> tuple[tokenizers.Tokenizer, dict[str, Any]]:
    """The engine of a directory and the content of its tokenizer_config.json."""
    if not directory.is_dir():
        raise UserError(
            f"{directory}: no such directory; a tokenizer is a directory with its files"
        )
    config = {
        **_json_or_nothing(directory / "special_tokens_map.json"),
        **_json_or_nothing(directory / "tokenizer_config.json"),
    }
    if (directory / "tokenizer.json").exists():
        engine = _engine_from_json(directory / "tokenizer.json")
        _obey_config(engine, config)
    elif (directory / "vocab.txt").is_file():
        engine = _engine_from_vocab(directory / "vocab.txt", config)
    elif (directory / "vocab.json").is_file() and (directory / "merges.txt").is_file():
        engine = _engine_from_merges(directory, config)
    else:
        raise UserError(
            f"{directory}: no tokenizer here; expected tokenizer.json, vocab.txt, "
            "or vocab.json with merges.txt"
        )
    return engine, config


def _json_or_nothing(path: Path) -> dict[str, Any]:
    return read_json(path) if path.exists() else {}


class _Merging(msgspec.Struct):
    """What is looked at of a model before the engine reads it."""

    continuing_subword_prefix: str | None = None
    merges: msgspec.Raw = msgspec.Raw(b"[]")


class _Engine(msgspec.Struct):
    model: _Merging


def _check_merges(path: Path) -> None:
    """Merges must go on with the prefix of the model: the engine cuts it off the right part without
    looking, and ends the process where that is not possible."""
    try:
        model = msgspec.json.decode(read_small(path, MOST_TOKENIZER), type=_Engine).model
        prefix = model.continuing_subword_prefix
        merges = msgspec.json.decode(model.merges, type=list[str | list[str]]) if prefix else []
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise UserError(f"{path}: not a tokenizer file: {error}") from error
    for merge in merges:
        right = merge.partition(" ")[2] if isinstance(merge, str) else (merge or [""])[-1]
        if prefix and not right.startswith(prefix):
            raise UserError(f"{path}: the merge {merge!r:.60} does not go on with {prefix!r:.20}")


def _engine_from_json(path: Path) -> tokenizers.Tokenizer:
    check_file(path, MOST_TOKENIZER)
    _check_merges(path)
    try:
        engine = tokenizers.Tokenizer.from_file(str(path))
    except BaseException as error:
        raise fault_of(error, f"{path}: not a tokenizer file") from error
    try:
        check_engine(engine)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return engine


def fault_of(error: BaseException, what: str = "this tokenizer cannot be used") -> UserError:
    """What the engine says of a bad file; it raises plain Exception, or gives up altogether with
    one that is none."""
    if isinstance(error, MemoryError) or not (
        isinstance(error, Exception) or type(error).__name__ == "PanicException"
    ):
        raise error
    return UserError(f"{what}: {error}")


def _obey_config(engine: tokenizers.Tokenizer, config: dict[str, Any]) -> None:
    """tokenizer_config.json wins over tokenizer.json where transformers lets it win."""
    normalizer = engine.normalizer
    kind = config.get("tokenizer_class")
    if (
        not isinstance(kind, str)
        or kind not in BERT_CLASSES
        or not isinstance(normalizer, normalizers.BertNormalizer)
    ):
        return
    if "do_lower_case" in config:
        normalizer.lowercase = bool(config["do_lower_case"])
    if "strip_accents" in config:
        normalizer.strip_accents = _accents(config)
    if "tokenize_chinese_chars" in config:
        normalizer.handle_chinese_chars = bool(config["tokenize_chinese_chars"])
    engine.normalizer = normalizer


def _accents(config: dict[str, Any]) -> bool | None:
    """Whether accents are stripped; None: where the text is made lower case."""
    told = config.get("strip_accents")
    if told is not None and not isinstance(told, bool):
        raise UserError(f"tokenizer_config.json: strip_accents is {told!r:.40}; use true or false")
    return told


def _engine_from_vocab(path: Path, config: dict[str, Any]) -> tokenizers.Tokenizer:
    try:
        lines = read_small(path, MOST_TOKENIZER).decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: not UTF-8: {error}") from error
    if lines and not lines[-1]:
        lines.pop()
    vocabulary: dict[str, int] = {}
    for id, line in enumerate(lines):
        token = line.rstrip("\r")
        if token in vocabulary:
            raise UserError(
                f'{path}, line {id + 1}: "{token}" is also on line {vocabulary[token] + 1}; '
                "every token needs its own line"
            )
        vocabulary[token] = id
    unknown_token = name_in(config, "unk_token") or "[UNK]"
    if unknown_token not in vocabulary:
        raise UserError(
            f"{path}: no {unknown_token} in {len(vocabulary):,} entries; is it a vocabulary?"
        )
    engine = tokenizers.Tokenizer(models.WordPiece(vocabulary, unk_token=unknown_token))
    engine.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=bool(config.get("tokenize_chinese_chars", True)),
        strip_accents=_accents(config),
        lowercase=bool(config.get("do_lower_case", True)),
    )
    engine.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    engine.decoder = decoders.WordPiece(prefix="##")
    _mark_special(engine, config, vocabulary)
    cls, sep = (name_in(config, role) or USUAL[role][0] for role in ("cls_token", "sep_token"))
    if cls in vocabulary and sep in vocabulary:
        engine.post_processor = bert_template(cls, sep, vocabulary)
    return engine


def _engine_from_merges(directory: Path, config: dict[str, Any]) -> tokenizers.Tokenizer:
    for name in ("vocab.json", "merges.txt"):
        check_file(directory / name, MOST_TOKENIZER)
    try:
        model = models.BPE.from_file(str(directory / "vocab.json"), str(directory / "merges.txt"))
    except BaseException as error:
        raise fault_of(error, f"{directory}: vocab.json and merges.txt do not fit") from error
    engine = tokenizers.Tokenizer(model)
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(
        add_prefix_space=bool(config.get("add_prefix_space", False))
    )
    engine.decoder = decoders.ByteLevel()
    vocabulary = engine.get_vocab()
    named = (name_in(config, role) for role in ("cls_token", "sep_token"))
    cls, sep = (name or usual for name, usual in zip(named, ("<s>", "</s>"), strict=True))
    if cls in vocabulary and sep in vocabulary:  # RoBERTa's; GPT-2 has neither
        engine.post_processor = roberta_template(cls, sep, vocabulary)
        mask = name_in(config, "mask_token") or "<mask>"
        if mask in vocabulary:
            engine.add_special_tokens([tokenizers.AddedToken(mask, lstrip=True)])
    else:
        engine.post_processor = processors.ByteLevel(trim_offsets=False)
    _mark_special(engine, config, vocabulary)
    return engine


def bert_template(cls: str, sep: str, vocabulary: dict[str, int]) -> processors.TemplateProcessing:
    """[CLS] a [SEP] and [CLS] a [SEP] b [SEP] with segments 0 and 1."""
    return processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )


def roberta_template(
    cls: str, sep: str, vocabulary: dict[str, int]
) -> processors.TemplateProcessing:
    """<s> a </s> and <s> a </s> </s> b </s>, all of one segment."""
    return processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 {sep}:0 $B:0 {sep}:0",
        special_tokens=[(cls, vocabulary[cls]), (sep, vocabulary[sep])],
    )


def _mark_special(
    engine: tokenizers.Tokenizer, config: dict[str, Any], vocabulary: dict[str, int]
) -> None:
    names = [name_in(config, role) for role in (*ROLES, "bos_token", "eos_token")]
    names += [name for role in ROLES for name in USUAL[role]]
    known = dict.fromkeys(name for name in names if name and name in vocabulary)
    engine.add_special_tokens(list(known))


def name_in(config: dict[str, Any], role: str) -> str | None:
    """A token named in a config, which may be a string or an object with its content."""
    value = config.get(role)
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def special_names(engine: tokenizers.Tokenizer, config: dict[str, Any]) -> dict[str, int]:
    """Role to id, for the roles whose token is in the vocabulary."""
    found = {}
    for role in ROLES:
        named = name_in(config, role)
        for name in (named,) if named else USUAL[role]:
            id = engine.token_to_id(name)
            if id is not None:
                found[role] = id
                break
    return found


def kind_of(engine: tokenizers.Tokenizer, config: dict[str, Any]) -> str:
    """How the vocabulary was made: what we wrote down, or else what the model is."""
    written = config.get("tianci_kind")
    if isinstance(written, str):
        return written
    model = type(engine.model).__name__.lower()
    if model == "bpe" and "ByteLevel" in json.dumps(_outline(engine)):
        return "byte-bpe"
    return {"wordlevel": "word"}.get(model, model)


def _outline(engine: tokenizers.Tokenizer) -> list[Any]:
    """Normalizer and pre-tokenizer as JSON, without the vocabulary."""
    return [
        json.loads(part.__getstate__()) if part is not None else None
        for part in (engine.normalizer, engine.pre_tokenizer)
    ]


def write(engine: tokenizers.Tokenizer, kind: str, config: dict[str, Any], directory: Path) -> None:
    """tokenizer.json, tokenizer_config.json, and vocab.txt where the pieces are a plain list."""
    engine.save(str(directory / "tokenizer.json"), pretty=True)
    model = type(engine.model).__name__
    names = {role: engine.id_to_token(id) for role, id in special_names(engine, config).items()}
    content: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": NO_LIMIT,
        **config,
        **names,
        "tianci_kind": kind,
    }
    (directory / "tokenizer_config.json").write_text(
        json.dumps(content, ensure_ascii=False, indent=2, sort_keys=True) + "\n", encoding="utf-8"
    )
    if model == "WordPiece":
        by_id = sorted((id, token) for token, id in engine.get_vocab().items())
        lines = "".join(f"{token}\n" for _, token in by_id)
        (directory / "vocab.txt").write_text(lines, encoding="utf-8")
