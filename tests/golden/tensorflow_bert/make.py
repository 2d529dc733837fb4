"""Writes the fixtures beside this file, with TensorFlow itself (made with tensorflow-cpu 2.21.0).

TensorFlow is no dependency of the project; in an environment of its own:
    pip install tensorflow-cpu==2.21.0 && python make.py
- bert_model.ckpt.*, bert_config.json, vocab.txt: a tiny BERT, variables as in google-research/bert
- expected.npz: every tensor of it, read back by TensorFlow
- expected_outputs.npz: its answers on one padded batch, computed by TensorFlow in float64
- shards/mixed.ckpt.*: other dtypes, a string and a partitioned tensor, over two data shards
- shards/expected.npz: its plain tensors, read back by TensorFlow (bfloat16 widened to float32)
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import tensorflow as tf

HERE = Path(__file__).parent
VOCABULARY = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] 床 前 明 月 光 疑 是 地 上 霜 举 头 望 低 思 故 乡 ， 。"
)
VOCABULARY += " the quick brown fox jump ##s over a lazy dog . , un ##able ##ing 李 白"
CONFIG = {
    "attention_probs_dropout_prob": 0.1,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 16,
    "initializer_range": 0.02,
    "intermediate_size": 32,
    "max_position_embeddings": 20,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "type_vocab_size": 2,
    "vocab_size": len(VOCABULARY.split()),
}
Weights = dict[str, np.ndarray]


def weights(rng: np.random.Generator) -> Weights:
    """Loud random float32 values under the names that google-research/bert gives them."""
    width, hidden = CONFIG["hidden_size"], CONFIG["intermediate_size"]
    found: Weights = {}

    def normal(name: str, *shape: int, around: float = 0.0) -> None:
        found[name] = rng.normal(around, 0.4, shape).astype(np.float32)

    def dense(name: str, inputs: int, outputs: int) -> None:
        normal(f"{name}/kernel", inputs, outputs)
        normal(f"{name}/bias", outputs)

    def norm(name: str) -> None:
        normal(f"{name}/LayerNorm/gamma", width, around=1.0)
        normal(f"{name}/LayerNorm/beta", width)

    normal("bert/embeddings/word_embeddings", CONFIG["vocab_size"], width)
    normal("bert/embeddings/token_type_embeddings", CONFIG["type_vocab_size"], width)
    normal("bert/embeddings/position_embeddings", CONFIG["max_position_embeddings"], width)
    norm("bert/embeddings")
    for number in range(CONFIG["num_hidden_layers"]):
        layer = f"bert/encoder/layer_{number}"
        for name in ("query", "key", "value"):
            dense(f"{layer}/attention/self/{name}", width, width)
        dense(f"{layer}/attention/output/dense", width, width)
        norm(f"{layer}/attention/output")
        dense(f"{layer}/intermediate/dense", width, hidden)
        dense(f"{layer}/output/dense", hidden, width)
        norm(f"{layer}/output")
    dense("bert/pooler/dense", width, width)
    dense("cls/predictions/transform/dense", width, width)
    norm("cls/predictions/transform")
    normal("cls/predictions/output_bias", CONFIG["vocab_size"])
    normal("cls/seq_relationship/output_weights", 2, width)
    normal("cls/seq_relationship/output_bias", 2)
    normal("bert/pooler/dense/bias/adam_m", width)
    normal("bert/pooler/dense/bias/adam_v", width)
    found["global_step"] = np.int64(12345)
    return found


def save_bert(values: Weights) -> None:
    """The checkpoint, by the same Saver that google-research/bert used."""
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        for name, value in values.items():
            v1.get_variable(name, initializer=value, use_resource=False)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(
            session, str(HERE / "bert_model.ckpt"), write_meta_graph=False, write_state=False
        )


def save_shards(rng: np.random.Generator) -> None:
    """Two data shards with the dtypes that BERT does not use, merged under one index."""
    folder = HERE / "shards"
    folder.mkdir(exist_ok=True)
    numbers = rng.normal(0, 3, (3, 5))
    first = {
        "half": tf.constant(numbers, tf.float16),
        "brain": tf.constant(numbers, tf.bfloat16),
        "text": tf.constant([b"not", b"a number"]),
        "empty": tf.zeros([0, 4]),
    }
    second = {
        "double": tf.constant(numbers, tf.float64),
        "int32": tf.constant([[-7, 2**31 - 1]], tf.int32),
        "int64": tf.constant(-(2**62), tf.int64),
        "long": tf.constant(rng.normal(0, 3, 1027), tf.float16),
        "partitioned": tf.ones([2, 3]),
    }
    parts = []
    for shard, tensors in enumerate((first, second)):
        name = str(folder / "part")
        part = tf.raw_ops.ShardedFilename(basename=name, shard=shard, num_shards=2)
        slices = ["4 3 0,2:0,3" if key == "partitioned" else "" for key in tensors]
        tf.raw_ops.SaveV2(
            prefix=part,
            tensor_names=list(tensors),
            shape_and_slices=slices,
            tensors=list(tensors.values()),
        )
        parts.append(part)
    prefix = str(folder / "mixed.ckpt")
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=parts, destination_prefix=prefix)
    reader = tf.train.load_checkpoint(prefix)
    plain = [name for name in first | second if name not in ("text", "partitioned")]
    read = {name: reader.get_tensor(name) for name in plain}
    read["brain"] = read["brain"].astype(np.float32)
    np.savez_compressed(folder / "expected.npz", **read)


def outputs(values: Weights) -> Weights:
    """What the model of google-research/bert answers, in float64 and with the exact (erf) gelu.

    Its first release had this gelu, later ones the tanh approximation; Hugging Face has erf.
    """
    held = {name: tf.constant(value, tf.float64) for name, value in values.items()}
    heads = CONFIG["num_attention_heads"]
    size = CONFIG["hidden_size"] // heads
    ids = tf.constant([[2, 5, 6, 7, 4, 9, 3, 10, 11, 4, 3], [2, 24, 25, 4, 27, 28, 3, 0, 0, 0, 0]])
    mask = tf.constant([[1] * 11, [1] * 7 + [0] * 4])
    segments = tf.constant([[0] * 7 + [1] * 4, [0] * 7 + [0] * 4])

    def dense(inputs: tf.Tensor, name: str) -> tf.Tensor:
        return tf.matmul(inputs, held[f"{name}/kernel"]) + held[f"{name}/bias"]

    def norm(inputs: tf.Tensor, name: str) -> tf.Tensor:
        mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
        gamma, beta = held[f"{name}/LayerNorm/gamma"], held[f"{name}/LayerNorm/beta"]
        return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, 1e-12)

    def gelu(inputs: tf.Tensor) -> tf.Tensor:
        return inputs * 0.5 * (1.0 + tf.math.erf(inputs / np.sqrt(2.0)))

    def attention(inputs: tf.Tensor, name: str) -> tf.Tensor:
        query, key, value = (
            tf.reshape(dense(inputs, f"{name}/{part}"), [*ids.shape, heads, size])
            for part in ("query", "key", "value")
        )
        scores = tf.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(size)
        scores += (1.0 - tf.cast(mask, tf.float64)[:, None, None, :]) * -10000.0
        context = tf.einsum("bhqk,bkhd->bqhd", tf.nn.softmax(scores), value)
        return tf.reshape(context, inputs.shape)

    hidden = tf.gather(held["bert/embeddings/word_embeddings"], ids)
    hidden += tf.gather(held["bert/embeddings/token_type_embeddings"], segments)
    hidden += held["bert/embeddings/position_embeddings"][: ids.shape[1]]
    layers = [norm(hidden, "bert/embeddings")]
    for number in range(CONFIG["num_hidden_layers"]):
        name = f"bert/encoder/layer_{number}"
        seen = dense(
            attention(layers[-1], f"{name}/attention/self"), f"{name}/attention/output/dense"
        )
        seen = norm(layers[-1] + seen, f"{name}/attention/output")
        fed = dense(gelu(dense(seen, f"{name}/intermediate/dense")), f"{name}/output/dense")
        layers.append(norm(seen + fed, f"{name}/output"))
    pooled = tf.tanh(dense(layers[-1][:, 0], "bert/pooler/dense"))
    guess = gelu(dense(layers[-1], "cls/predictions/transform/dense"))
    guess = norm(guess, "cls/predictions/transform")
    table = held["bert/embeddings/word_embeddings"]
    related = tf.matmul(pooled, held["cls/seq_relationship/output_weights"], transpose_b=True)
    return {
        "input_ids": ids.numpy(),
        "input_mask": mask.numpy(),
        "segment_ids": segments.numpy(),
        "layers": tf.stack(layers).numpy(),  # embeddings first, then every layer
        "pooled": pooled.numpy(),
        "masked_logits": (
            tf.einsum("btw,vw->btv", guess, table) + held["cls/predictions/output_bias"]
        ).numpy(),
        "next_sentence_logits": (related + held["cls/seq_relationship/output_bias"]).numpy(),
    }


def main() -> None:
    """Every fixture; the seed is fixed, so a second run writes the same tensors."""
    rng = np.random.default_rng(2018)
    save_bert(weights(rng))
    save_shards(rng)
    (HERE / "bert_config.json").write_text(json.dumps(CONFIG, indent=2) + "\n")
    (HERE / "vocab.txt").write_text("\n".join(VOCABULARY.split()) + "\n", encoding="utf-8")
    reader = tf.train.load_checkpoint(str(HERE / "bert_model.ckpt"))
    read = {name: reader.get_tensor(name) for name in sorted(reader.get_variable_to_shape_map())}
    np.savez_compressed(HERE / "expected.npz", **read)
    np.savez_compressed(HERE / "expected_outputs.npz", **outputs(read))


if __name__ == "__main__":
    main()
