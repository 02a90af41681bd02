"""A model for vectors that is a few kilobytes: random weights, except that words of one kind are the same to it."""

from __future__ import annotations

import json
import random
import struct
from pathlib import Path

KINDS = (("tea", "beverage", "drink"), ("cat", "feline", "kitten"), ("tax", "money", "bill"))
OTHERS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "a", ".", "#", "##s", "an", "##na", "likes", "green")
WIDTH, INNER, LAYERS, POSITIONS = 32, 64, 1, 16


def tensors() -> dict[str, tuple[tuple[int, ...], list[float]]]:
    """name -> shape and numbers, always the same."""
    chance = random.Random(7)

    def some(*shape: int, size: float = 0.05) -> tuple[tuple[int, ...], list[float]]:
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        return shape, [chance.gauss(0, size) for _ in range(count)]

    kinds = [some(WIDTH, size=1.0)[1] for _ in KINDS]
    words = [[0.02 * x for x in some(WIDTH, size=1.0)[1]] for _ in OTHERS]
    words += [kinds[at] for at, kind in enumerate(KINDS) for _ in kind]
    made = {
        "embeddings.word_embeddings.weight": ((len(words), WIDTH), [x for row in words for x in row]),
        "embeddings.position_embeddings.weight": some(POSITIONS, WIDTH, size=0.01),
        "embeddings.token_type_embeddings.weight": some(2, WIDTH, size=0.01),
    }
    layer = "encoder.layer.0."
    shapes = {
        **{f"{layer}attention.self.{part}": (WIDTH, WIDTH) for part in ("query", "key", "value")},
        f"{layer}attention.output.dense": (WIDTH, WIDTH),
        f"{layer}intermediate.dense": (INNER, WIDTH),
        f"{layer}output.dense": (WIDTH, INNER),
    }
    for name, shape in shapes.items():
        made[f"{name}.weight"], made[f"{name}.bias"] = some(*shape), some(shape[0])
    for name in ("embeddings.LayerNorm", f"{layer}attention.output.LayerNorm", f"{layer}output.LayerNorm"):
        made[f"{name}.weight"], made[f"{name}.bias"] = ((WIDTH,), [1.0] * WIDTH), some(WIDTH, size=0.01)
    return made


def model(home: Path) -> Path:
    """Write it where the program looks for the real one."""
    header, data = {}, b""
    for name, (shape, numbers) in tensors().items():
        packed = struct.pack(f"<{len(numbers)}f", *numbers)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    told = json.dumps(header).encode()
    told += b" " * (-len(told) % 8)
    vocabulary = "\n".join((*OTHERS, *(word for kind in KINDS for word in kind)))
    path = home / "models" / "all-minilm-l6-v2.bert"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("<Q", len(told)) + told + data + vocabulary.encode())
    return path
