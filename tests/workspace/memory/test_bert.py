"""The numpy model against the same sums written out in plain Python."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

import tiny

pytest.importorskip("numpy")

from palinurus.workspace.memory.bert import BertModel

Rows = list[list[float]]


def weight(name: str) -> Rows:
    shape, numbers = tiny.tensors()[name]
    return [numbers[at : at + shape[1]] for at in range(0, len(numbers), shape[1])]


def linear(x: Rows, name: str) -> Rows:
    w, b = weight(f"{name}.weight"), tiny.tensors()[f"{name}.bias"][1]
    return [[sum(p * q for p, q in zip(row, out, strict=True)) + b[at] for at, out in enumerate(w)] for row in x]


def normal(x: Rows, name: str) -> Rows:
    scale, shift = tiny.tensors()[f"{name}.weight"][1], tiny.tensors()[f"{name}.bias"][1]
    made = []
    for row in x:
        mean = sum(row) / len(row)
        spread = math.sqrt(sum((v - mean) ** 2 for v in row) / len(row) + 1e-12)
        made.append([(v - mean) / spread * s + t for v, s, t in zip(row, scale, shift, strict=True)])
    return made


def added(a: Rows, b: Rows) -> Rows:
    return [[p + q for p, q in zip(x, y, strict=True)] for x, y in zip(a, b, strict=True)]


def attention(x: Rows) -> Rows:
    """One head, as wide as the model."""
    q, k, v = (linear(x, f"encoder.layer.0.attention.self.{part}") for part in ("query", "key", "value"))
    mixed = []
    for row in q:
        scores = [math.exp(sum(a * b for a, b in zip(row, other, strict=True)) / math.sqrt(32)) for other in k]
        mixed.append([sum(s * r[at] for s, r in zip(scores, v, strict=True)) / sum(scores) for at in range(len(row))])
    return linear(mixed, "encoder.layer.0.attention.output.dense")


def slow(numbers: list[int]) -> list[float]:
    words, places = weight("embeddings.word_embeddings.weight"), weight("embeddings.position_embeddings.weight")
    kind = weight("embeddings.token_type_embeddings.weight")[0]
    x = added(added([words[n] for n in numbers], places[: len(numbers)]), [kind] * len(numbers))
    x = normal(x, "embeddings.LayerNorm")
    x = normal(added(x, attention(x)), "encoder.layer.0.attention.output.LayerNorm")
    inner = [
        [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in r] for r in linear(x, "encoder.layer.0.intermediate.dense")
    ]
    x = normal(added(x, linear(inner, "encoder.layer.0.output.dense")), "encoder.layer.0.output.LayerNorm")
    mean = [sum(row[at] for row in x) / len(x) for at in range(tiny.WIDTH)]
    size = math.sqrt(sum(v * v for v in mean))
    return [v / size for v in mean]


def test_the_numbers_are_right(tmp_path: Path) -> None:
    bert = BertModel(str(tiny.model(tmp_path)))
    words = [*tiny.OTHERS, *(word for kind in tiny.KINDS for word in kind)]
    numbers = [words.index(piece) for piece in ("[CLS]", "an", "##na", "likes", "green", "tea", ".", "[SEP]")]
    assert bert.vector("Anna likes green tea.").tolist() == pytest.approx(slow(numbers), abs=2e-5)


def test_like_is_nearer_than_unlike_and_the_end_of_a_long_text_counts(tmp_path: Path) -> None:
    bert = BertModel(str(tiny.model(tmp_path)))
    tea, drink, cat = (bert.vector(text) for text in ("a tea", "the beverage", "the cat"))
    assert tea @ drink > tea @ cat + 0.2
    assert float(tea @ tea) == pytest.approx(1.0, abs=1e-5)
    assert (bert.vector("a tea") == tea).all()
    long = "the a . " * 10
    assert bert.vector(long + "cat " * 10) @ cat > bert.vector(long + "tax " * 10) @ cat


@pytest.mark.parametrize("data", [b"", b"\x08" + b"\0" * 7 + b"not json", b"\xff" * 100])
def test_a_file_that_is_no_model(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.bert"
    path.write_bytes(data)
    with pytest.raises((ValueError, KeyError, OSError)):
        BertModel(str(path))
