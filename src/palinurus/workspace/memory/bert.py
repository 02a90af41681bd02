"""The main program of the child that turns texts into vectors: a small BERT model in numpy, and nearest vectors.

Only this file imports numpy. It reads the model and an index, writes nothing, and ends when its parent does. The
model is one file: safetensors, and the vocabulary (one piece a line) after it.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from typing import Any, TypeAlias
from urllib.parse import quote

import numpy as np
from numpy.typing import NDArray

from palinurus.core.memory.wordpiece import Wordpiece
from palinurus.workspace.memory.embedder import read_frame, write_frame

Floats: TypeAlias = NDArray[np.float32]
WINDOW = 256  # pieces looked at together
WINDOWS = 8  # of one text; what follows is not looked at
HEAD = 32  # numbers of one attention head
_TYPES: dict[str, Any] = {"F32": np.float32, "F16": np.float16}
_ERF = (0.254829592, -0.284496736, 1.421413741, -1.453152027, 1.061405429)


class BertModel:
    """`vector` is the model. Raises OSError, ValueError, KeyError for a file that is none."""

    def __init__(self, path: str) -> None:
        data = np.memmap(path, np.uint8, "r")
        start = 8 + int.from_bytes(data[:8].tobytes(), "little")
        header: dict[str, Any] = json.loads(data[8:start].tobytes())
        header.pop("__metadata__", None)
        tensors: dict[str, Floats] = {}
        for name, told in header.items():
            if told["dtype"] not in _TYPES:
                continue
            low, high = (start + at for at in told["data_offsets"])
            raw = data[low:high].view(_TYPES[told["dtype"]]).reshape(told["shape"])
            tensors[name] = np.ascontiguousarray(raw, np.float32)
        end = start + max(told["data_offsets"][1] for told in header.values())
        self._pieces = Wordpiece(data[end:].tobytes().decode().split("\n"))
        self._tensors = tensors
        self._layers = 1 + max(int(name.split(".")[2]) for name in tensors if name.startswith("encoder.layer."))
        self._window = min(WINDOW, len(tensors["embeddings.position_embeddings.weight"]))

    def vector(self, text: str) -> Floats:
        """Of length 1: the mean over all pieces of the text."""
        states = [self._states(row) for row in self._pieces.windows(text, self._window)[:WINDOWS]]
        mean: Floats = np.concatenate(states).mean(axis=0)
        return mean / max(float(np.linalg.norm(mean)), 1e-12)

    def _states(self, row: list[int]) -> Floats:
        tensors = self._tensors
        x = tensors["embeddings.word_embeddings.weight"][row]
        x = x + tensors["embeddings.position_embeddings.weight"][: len(row)]
        x = x + tensors["embeddings.token_type_embeddings.weight"][0]
        x = self._normal(x, "embeddings.LayerNorm")
        for number in range(self._layers):
            layer = f"encoder.layer.{number}."
            x = self._normal(x + self._attention(x, layer), layer + "attention.output.LayerNorm")
            inner = _gelu(self._linear(x, layer + "intermediate.dense"))
            x = self._normal(x + self._linear(inner, layer + "output.dense"), layer + "output.LayerNorm")
        return x

    def _attention(self, x: Floats, layer: str) -> Floats:
        length, width = x.shape
        parts = ("query", "key", "value")
        query, key, value = (
            self._linear(x, f"{layer}attention.self.{part}").reshape(length, -1, HEAD).transpose(1, 0, 2)
            for part in parts
        )
        scores = query @ key.transpose(0, 2, 1) / np.float32(HEAD**0.5)
        scores = np.exp(scores - scores.max(axis=-1, keepdims=True))
        scores /= scores.sum(axis=-1, keepdims=True)
        mixed = (scores @ value).transpose(1, 0, 2).reshape(length, width)
        return self._linear(mixed, layer + "attention.output.dense")

    def _linear(self, x: Floats, name: str) -> Floats:
        made: Floats = x @ self._tensors[name + ".weight"].T + self._tensors[name + ".bias"]
        return made

    def _normal(self, x: Floats, name: str) -> Floats:
        x = x - x.mean(axis=-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-12))
        return x * self._tensors[name + ".weight"] + self._tensors[name + ".bias"]


def _gelu(x: Floats) -> Floats:
    """With an error function good to 7 digits; numpy has none."""
    at = np.abs(x) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * at)
    series = np.zeros_like(t)
    for factor in reversed(_ERF):
        series = (series + np.float32(factor)) * t
    erf = np.sign(x) * (1 - series * np.exp(-at * at))
    made: Floats = np.float32(0.5) * x * (1 + erf)
    return made


class VectorTable:
    """The vectors of one index, read again when somebody has written to it."""

    def __init__(self, file: str) -> None:
        self._conn = sqlite3.connect(f"file:{quote(file)}?mode=ro", uri=True, timeout=2.0, isolation_level=None)
        self._seen = -1
        self._names: list[str] = []
        self._matrix: Floats = np.zeros((0, 0), np.float32)

    def nearest(self, vector: Floats, count: int) -> list[tuple[str, float]]:
        """The hashes of the nearest pieces and their cosines, nearest first. Raises sqlite3.Error."""
        version = int(self._conn.execute("PRAGMA data_version").fetchone()[0])
        if version != self._seen:
            self._read(len(vector))
            self._seen = version
        if not self._names:
            return []
        scores = self._matrix @ vector
        few = np.argpartition(-scores, min(count, len(scores) - 1))[:count]
        best = few[np.argsort(-scores[few], kind="stable")]
        return [(self._names[at], float(scores[at])) for at in best]

    def _read(self, width: int) -> None:
        rows = self._conn.execute(
            "SELECT hash, data FROM vectors WHERE hash IN (SELECT hash FROM chunks) AND length(data) = ?", (width * 2,)
        ).fetchall()
        self._names = [name for name, _ in rows]
        flat = np.frombuffer(b"".join(data for _, data in rows), np.float16)
        self._matrix = flat.reshape(len(rows), width).astype(np.float32)


def main(path: str) -> None:
    """Answer until stdin ends."""
    os.nice(5)  # filling the index must not slow conversations down
    model, tables = BertModel(path), dict[tuple[int, int], VectorTable]()

    def embed(told: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        rows = [model.vector(text) for text in told["texts"]]
        return {}, np.array(rows, np.float16).tobytes()

    def near(told: dict[str, Any]) -> tuple[dict[str, Any], bytes]:
        stands = os.stat(told["file"])  # one that was made anew is another file
        key = (stands.st_dev, stands.st_ino)
        if key not in tables:
            tables[key] = VectorTable(told["file"])
        return {"near": tables[key].nearest(model.vector(told["text"]), told["count"])}, b""

    jobs: dict[str, Callable[[dict[str, Any]], tuple[dict[str, Any], bytes]]] = {"embed": embed, "near": near}
    while True:
        try:
            told, _ = read_frame(sys.stdin.buffer)
        except EOFError:
            return
        write_frame(sys.stdout.buffer, *_answer(jobs[told["job"]], told))


def _answer(
    job: Callable[[dict[str, Any]], tuple[dict[str, Any], bytes]], told: dict[str, Any]
) -> tuple[dict[str, Any], bytes]:
    try:
        return job(told)
    except Exception as exc:  # noqa: BLE001 - process boundary: whatever goes wrong is an answer
        return {"failed": f"{type(exc).__name__}: {exc}"[:300]}, b""


if __name__ == "__main__":
    main(sys.argv[1])
