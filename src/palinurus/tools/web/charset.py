"""Bytes of a page -> text: by BOM, then the header, then what the page says of itself, then by trying. Pure.

Only codecs of writing systems are used; a page cannot name one that does something else (zip, punycode, utf-7).
"""

from __future__ import annotations

import re

_BOMS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be"))
_KNOWN = re.compile(
    r"utf-?8|utf-?16(?:-?[lb]e)?|us-ascii|ascii|iso-?8859-?\d{1,2}|latin-?\d|windows-?\d{3,4}|cp\d{3,4}|koi8-?[rut]"
    r"|shift[_-]?jis|sjis|euc-?(?:jp|kr)|iso-?2022-?jp|gb(?:k|2312|18030)|big5(?:-?hkscs)?|mac[a-z-]{0,16}|tis-?620"
)
_META = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([A-Za-z0-9_.:-]{2,32})""", re.IGNORECASE)
_XML = re.compile(rb"""<\?xml[^>]{0,100}?encoding\s*=\s*["']([A-Za-z0-9_.:-]{2,32})""", re.IGNORECASE)
# What pages say and what they mean, as browsers have agreed.
_MEANT = {"iso-8859-1": "windows-1252", "latin-1": "windows-1252", "latin1": "windows-1252", "ascii": "windows-1252",
          "us-ascii": "windows-1252", "gb2312": "gb18030", "gbk": "gb18030", "ks_c_5601-1987": "cp949"}  # fmt: skip


def decode_page(data: bytes, told: str = "") -> str:
    """The text; what cannot be read is replaced."""
    for mark, name in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(name, "replace")
    head = data[:2048]
    inside = _META.search(head) or _XML.search(head)
    for name in (told, inside[1].decode() if inside else ""):
        low = name.strip().strip("\"'").lower()
        if low in _MEANT or _KNOWN.fullmatch(low):
            try:
                return data.decode(_MEANT.get(low, low), "replace")
            except LookupError:
                continue
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as exc:
        # Cut in the middle of a character it is UTF-8 all the same, if other characters before were.
        late = exc.start >= len(data) - 3 and not data[: exc.start].isascii()
        return data.decode("utf-8" if late else "windows-1252", "replace")
