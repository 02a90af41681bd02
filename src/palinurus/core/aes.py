"""AES-256 in CBC mode, opened only (FIPS 197, SP 800-38A): what Feishu seals its events with. Pure.

Python has no AES of its own, and the library that has costs 12 MB for this one formula (decision 0137). Not in constant
time: whoever can measure us opening an event can read the key where it stands. Key schedule and tables are made once.
"""

from __future__ import annotations

import struct
from functools import cache, lru_cache
from typing import NamedTuple

BLOCK, ROUNDS = 16, 14


class _Tables(NamedTuple):
    forward: bytes  # the S-box
    inverse: bytes
    columns: tuple[tuple[int, ...], ...]  # for each row: the inverse S-box and the inverse of MixColumns in one


def _times(left: int, right: int) -> int:
    """The product in the field of 256 elements."""
    made = 0
    while right:
        made ^= left if right & 1 else 0
        left = (left << 1) ^ (0x11B if left & 0x80 else 0)
        right >>= 1
    return made


@cache
def _tables() -> _Tables:
    powers = [1]
    while len(powers) < 255:  # of 3, which are all elements but 0: the inverse of 3^n is 3^(255-n)
        powers.append(_times(powers[-1], 3))
    forward = bytearray(256)
    for value in range(256):
        turned = powers[-powers.index(value) % 255] if value else 0
        forward[value] = 0x63
        for turn in range(5):
            forward[value] ^= ((turned << turn) | (turned >> (8 - turn))) & 0xFF
    inverse = bytearray(256)
    for value, sealed in enumerate(forward):
        inverse[sealed] = value
    first = [struct.unpack(">I", bytes(_times(opened, factor) for factor in (14, 9, 13, 11)))[0] for opened in inverse]
    columns = tuple(tuple(_turn(word, 8 * row) for word in first) for row in range(4))
    return _Tables(bytes(forward), bytes(inverse), columns)


def _turn(word: int, bits: int) -> int:
    return ((word >> bits) | (word << (32 - bits))) & 0xFFFFFFFF


@lru_cache(maxsize=16)
def _schedule(key: bytes) -> tuple[tuple[int, ...], ...]:
    """The words of each round, the last round first, as the equivalent inverse cipher wants them."""
    forward, _, columns = _tables()
    words = list(struct.unpack(">8I", key))
    constant = 1
    for at in range(8, 4 * (ROUNDS + 1)):
        last = words[-1]
        if at % 8 == 0:
            last = _substitute(_turn(last, 24), forward) ^ (constant << 24)
            constant = _times(constant, 2)
        elif at % 8 == 4:
            last = _substitute(last, forward)
        words.append(words[at - 8] ^ last)
    made = []
    for turn in range(ROUNDS, -1, -1):
        part = words[4 * turn : 4 * turn + 4]
        if 0 < turn < ROUNDS:
            part = [_mix(word, forward, columns) for word in part]
        made.append(tuple(part))
    return tuple(made)


def _substitute(word: int, box: bytes) -> int:
    return int.from_bytes(bytes(box[one] for one in word.to_bytes(4, "big")), "big")


def _mix(word: int, forward: bytes, columns: tuple[tuple[int, ...], ...]) -> int:
    """The inverse of MixColumns alone: the tables undo the S-box, so it is applied first."""
    made = 0
    for row, one in enumerate(word.to_bytes(4, "big")):
        made ^= columns[row][forward[one]]
    return made


def open_cbc(key: bytes, sealed: bytes) -> bytes | None:
    """What was sealed, without its padding; `sealed` begins with the initial vector. None if it cannot be: another
    length than whole blocks, or another padding than PKCS 7."""
    if len(key) != 32 or len(sealed) < 2 * BLOCK or len(sealed) % BLOCK:
        return None
    rounds, words = _schedule(key), struct.unpack(f">{len(sealed) // 4}I", sealed)
    made: list[int] = []
    for at in range(4, len(words), 4):
        opened = _open_block(words[at : at + 4], rounds)
        made += (opened[0] ^ words[at - 4], opened[1] ^ words[at - 3])
        made += (opened[2] ^ words[at - 2], opened[3] ^ words[at - 1])
    plain = struct.pack(f">{len(made)}I", *made)
    count = plain[-1]
    right = 1 <= count <= BLOCK and plain.endswith(bytes((count,)) * count)
    return plain[:-count] if right else None


def _open_block(block: tuple[int, ...], rounds: tuple[tuple[int, ...], ...]) -> tuple[int, int, int, int]:
    _, inverse, (zero, one, two, three) = _tables()
    a, b, c, d = (word ^ own for word, own in zip(block, rounds[0], strict=True))
    for e, f, g, h in rounds[1:-1]:
        a, b, c, d = (
            zero[a >> 24] ^ one[d >> 16 & 255] ^ two[c >> 8 & 255] ^ three[b & 255] ^ e,
            zero[b >> 24] ^ one[a >> 16 & 255] ^ two[d >> 8 & 255] ^ three[c & 255] ^ f,
            zero[c >> 24] ^ one[b >> 16 & 255] ^ two[a >> 8 & 255] ^ three[d & 255] ^ g,
            zero[d >> 24] ^ one[c >> 16 & 255] ^ two[b >> 8 & 255] ^ three[a & 255] ^ h,
        )
    e, f, g, h = rounds[-1]
    return (
        _last((a, d, c, b), inverse) ^ e,
        _last((b, a, d, c), inverse) ^ f,
        _last((c, b, a, d), inverse) ^ g,
        _last((d, c, b, a), inverse) ^ h,
    )


def _last(words: tuple[int, int, int, int], inverse: bytes) -> int:
    """The S-box alone: the last round mixes nothing."""
    a, b, c, d = words
    high = inverse[a >> 24] << 24 | inverse[b >> 16 & 255] << 16
    return high | inverse[c >> 8 & 255] << 8 | inverse[d & 255]
