"""Spanish: how promises sound. A table; `commitments` reads it."""

from __future__ import annotations

from palinurus.core.languages.row import LanguageTable, build_gap_pattern

_DAY = r"(?:lunes|martes|miércoles|jueves|viernes|sábado|domingo)"
_TIMES = (
    r"(?<!\bde )(?<!\bdel )(?<!\bpara )(?<!\bla )\b(?:esta\s+(?:noche|tarde)|mañana|pasado\s+mañana|más\s+tarde"
    rf"|la\s+(?:próxima\s+semana|semana\s+que\s+viene)|el\s+(?:próximo\s+)?{_DAY}|antes\s+del\s+{_DAY}"
    r"|(?:dentro\s+de|en)\s+(?:un[oa]?s?|dos|tres|cinco|diez|media|\d{1,3})\s+(?:minutos?|horas?|días?|semanas?)"
    r"|a\s+las\s+\d{1,2}(?::\d\d)?|cada\s+(?:día|hora|mañana|noche|semana)|todos\s+los\s+días|al\s+final\s+del\s+día)\b"
)
_STEMS = (
    r"(?:revis|comprob|mir|envi|mand|intent|prob|escrib|prepar|pregunt|llam|busc|public|compart|resum|vigil|actualiz"
    r"|termin|continu|verific|consult|ejecut|ech)"
)
_DO = (
    rf"(?:\b{_STEMS}(?:aré|eré|iré)\b|\bharé\b|\bvolveré\s+a\s+\w+|\btendré\s+list[oa]\b"
    rf"|\bvoy\s+a\s+(?:{_STEMS}(?:ar|er|ir)|hacer|volver\s+a\s+\w+)(?:te|l[oae]s?|tel[oa]s?)?\b)"
)
_BETWEEN = build_gap_pattern(
    "para", "que", "si", "qué", "cómo", "cuál", "calendario", "agenda", "tiempo", "clima", "pronóstico", "reuni\\w+",
    "eventos?", "citas?", "sal(?:e|en)", "llamad[oa]",
)  # fmt: skip
_YOU = r"(?:te|os|le|les)"

SPANISH = LanguageTable(
    mark=r"ré\b|\bvoy\s+a\b|\baviso\b",
    promise=(
        rf"{_DO}{_BETWEEN}{_TIMES}",
        rf"(?:^|,\s+){_TIMES}\s+(?:(?:te|lo|la|le)\s+){{0,2}}{_DO}",
        rf"\b{_YOU}\s+(?:avis(?:o|aré)|notificaré|informaré)\b",
        rf"\b{_YOU}\s+(?:contaré|diré)\s+(?:cuando|en\s+cuanto|cómo\s+va)|\b{_YOU}\s+recordaré(?!\s+que)",
        r"\b(?:te|os|l[oae])\s+mantendré\s+(?:al\s+tanto|al\s+corriente|informad[oa])|\bestaré\s+(?:pendiente"
        r"|atent[oa])\b",
        r"\bme\s+pondré\s+en\s+contacto|\bvolveré\s+(?:contigo|con\s+usted)|\bvoy\s+a\s+(?:avisar"
        r"|recordar)(?:te|le)\b(?!\s+que)",
    ),
    never=(
        r"\bsi\s+(?:quieres|quiere|lo|te|me|usted|es|no|necesitas|prefieres|hace|hay|te\s+parece|gustas)\b"
        r"|\ba\s+menos\s+que\b",
        r"\b(?:cuando|en\s+cuanto)\s+(?:tú|usted|quieras?|puedas?|confirmes?|me|estés?|digas?|tengas?)\b",
        r"¿|\bquieres\s+que\b|\b(?:podría|puedo|debería|debo)\b|\bpor\s+ejemplo\b|\bahora\b|\benseguida\b"
        r"|\bde\s+inmediato\b",
        r"\bdime\b|\bdígame\b|\bavísame\b|\bla\s+próxima\s+vez\b|\ben\s+adelante\b|\bno\b|\bnunca\b|\b(?:dijo"
        r"|escribió)\s*:",
    ),
    amount=r"\b(?:dentro\s+de|en)\s+(un[oa]?s?|dos|tres|cinco|diez|media|\d{1,3})\s+(minuto|hora|día|semana)",
    numbers={
        "un": 1,
        "una": 1,
        "uno": 1,
        "unos": 3,
        "unas": 3,
        "media": 0.5,
        "dos": 2,
        "tres": 3,
        "cinco": 5,
        "diez": 10,
    },
    units=("minuto", "hora", "día", "semana"),
    days={
        "evening": r"esta\s+noche|cada\s+noche",
        "afternoon": r"esta\s+tarde|al\s+final\s+del\s+día",
        "overmorrow": r"pasado\s+mañana",
        "tomorrow": r"\bmañana\b|cada\s+(?:día|mañana)|todos\s+los\s+días",
        "week": r"próxima\s+semana|semana\s+que\s+viene|cada\s+semana",
    },
    clock=r"\ba\s+las\s+(\d{1,2})(?::(\d\d))?()",
)
