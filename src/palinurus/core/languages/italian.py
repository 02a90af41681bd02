"""Italian: how promises sound. A table; `commitments` reads it."""

from __future__ import annotations

from palinurus.core.languages.row import LanguageTable, build_gap_pattern

_DAY = r"(?:lunedì|martedì|mercoledì|giovedì|venerdì|sabato|domenica)"
_TIMES = (
    r"(?<!\bdi )(?<!\bper )(?<!\bda )\b(?:stasera|stanotte|questa\s+sera|questo\s+pomeriggio|domani|domattina"
    r"|dopodomani|più\s+tardi"
    rf"|la\s+(?:prossima\s+settimana|settimana\s+prossima)|{_DAY}(?:\s+prossim[oa])?|entro\s+(?:{_DAY}"
    rf"|domani|stasera)"
    r"|[tf]ra\s+(?:mezz['’]ora|un['’]ora|(?:una?|due|tre|cinque|dieci|qualche|\d{1,3})\s+(?:minut[oi]|or[ae]"
    r"|giorn[oi]|settiman[ae]))"
    r"|alle\s+\d{1,2}(?:[:.]\d\d)?|ogni\s+(?:giorno|ora|mattina|sera|settimana)|a\s+fine\s+giornata)\b"
)
_STEMS = (
    r"(?:controll|ricontroll|verific|guard|invi|mand|prov|riprov|test|prepar|chied|chiam|cerc|pubblic|condivid|riassum"
    r"|monitor|aggiorn|continu|scriv|esegu|analizz)"
)
_DO = (
    rf"(?:\b{_STEMS}h?(?:erò|irò)\b|\b(?:farò|finirò|rivedrò)\b|\bdarò\s+un['’]occhiata"
    rf"|\b(?:ti|vi|lo|la|li|le|te\s+lo|te\s+la|ve\s+lo|gli)\s+{_STEMS}o\b)"
)
_BETWEEN = build_gap_pattern(
    "per", "che", "se", "quale", "come", "calendario", "agenda", "meteo", "previsioni", "riunion[ei]", "event[oi]",
    "appuntament[oi]", "chiamat[oa]",
)  # fmt: skip
_NUMBERS = {
    "un": 1, "una": 1, "un'": 1, "un’": 1, "mezz'": 0.5, "mezz’": 0.5,
    "qualche": 3, "due": 2, "tre": 3, "cinque": 5, "dieci": 10,
}  # fmt: skip

ITALIAN = LanguageTable(
    mark=r"rò\b|\b(?:ti|vi|lo|la|li|le|te|ve|gli|tengo|faro)\b",
    promise=(
        rf"{_DO}{_BETWEEN}{_TIMES}",
        rf"(?:^){_TIMES},?\s+(?:(?:ti|lo|la|vi)\s+)?{_DO}",
        r"\b(?:ti|vi|le)\s+(?:faccio|farò)\s+sapere|\b(?:ti|vi|la)\s+(?:avviso|avviserò|avverto|avvertirò"
        r"|aggiornerò|ricontatt(?:o|erò))\b",
        r"\b(?:ti|vi|la)\s+t(?:engo|errò)\s+(?:aggiornat[oaie]|informat[oaie])|\bt(?:engo|errò)\s+d['’]occhio",
        r"\b(?:ti|vi|le)\s+ricorderò\b(?!\s+che)|\bmi\s+far(?:ò|o)\s+(?:viv[oa]|sentire)|\b(?:ti|le)\s+notificherò\b",
    ),
    never=(
        r"\bse\b|\b(?:quando|appena|non\s+appena)\s+(?:vuoi|puoi|sei|mi|confermi|hai|avrai|lei)\b"
        r"|\bvuoi\s+che\b|\bvuole\s+che\b",
        r"\b(?:posso|potrei|dovrei|devo)\b|\b(?:per|ad)\s+esempio\b|\bsubito\b|\badesso\b"
        r"|\bin\s+questo\s+momento\b|\bdimmi\b",
        r"\bfammi\s+sapere\b|\bla\s+prossima\s+volta\b|\bd['’]ora\s+in\s+poi\b|\bnon\b|\bmai\b|\b(?:disse"
        r"|scritto|scrisse)\s*:",
    ),
    amount=r"\b[tf]ra\s+(mezz['’]|un['’]|una?|due|tre|cinque|dieci|qualche|\d{1,3})\s*(minut|or[ae]|giorn|settiman)",
    numbers=_NUMBERS,
    units=("minut", "or", "giorn", "settiman"),
    days={
        "evening": r"\bstasera\b|\bstanotte\b|questa\s+sera|ogni\s+sera",
        "afternoon": r"questo\s+pomeriggio|fine\s+giornata",
        "overmorrow": r"\bdopodomani\b",
        "tomorrow": r"\bdomani\b|\bdomattina\b|ogni\s+(?:giorno|mattina)",
        "week": r"prossima\s+settimana|settimana\s+prossima|ogni\s+settimana",
    },
    clock=r"\balle\s+(\d{1,2})(?:[:.](\d\d))?()",
)
