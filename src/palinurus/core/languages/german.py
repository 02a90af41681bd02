"""German: how promises sound. A table; `commitments` reads it."""

from __future__ import annotations

from palinurus.core.languages.row import LanguageTable, build_gap_pattern

_TAG = r"(?:montag|dienstag|mittwoch|donnerstag|freitag|samstag|sonntag)"
_TIMES = (
    r"\b(?:heute\s+(?:abend|nacht|nachmittag|mittag)|später|morgen|übermorgen|nächste(?:n|r)?\s+(?:woche|monat)"
    rf"|am\s+{_TAG}|bis\s+(?:{_TAG}|morgen|heute\s+abend)|um\s+\d{{1,2}}(?::\d\d)?\s*uhr"
    r"|in\s+(?:einer|einem|ein\s+paar|zwei|drei|fünf|zehn|\d{1,3})\s+(?:halben\s+)?(?:minuten?|stunden?"
    r"|tage?n?|wochen?)"
    r"|jede[nr]?\s+(?:tag|morgen|abend|stunde|woche)|täglich|stündlich)\b"
)
_VERBS = (
    r"(?:prüfe|überprüfe|checke|schaue|sehe|schicke|sende|versuche|teste|frage|schreibe|rufe|kümmere|mache|erledige"
    r"|bereite|aktualisiere|fasse|suche|beobachte|probiere|starte|werfe|setze)\b"
)
_DU = r"(?:dich|dir|euch|sie|ihnen)"
_BETWEEN = build_gap_pattern(
    "für", "von", "vom", "dass", "ob", "wie", "was", "welche[rsn]?", "kalender", "wetter", "termine?", "sitzung",
    "besprechung", "fällig\\w*", "der", "unter",
)  # fmt: skip

GERMAN = LanguageTable(
    mark=r"\bich\b",
    promise=(
        rf"\bich\s+{_VERBS}{_BETWEEN}{_TIMES}",
        rf"\bich\s+werde\b{_BETWEEN}{_TIMES}[^.!?\n;:]{{0,80}}?\w(?:en|ern|eln)\b",
        rf"(?:^|,\s+){_TIMES}\s+{_VERBS[:-2]}\s+ich\b",
        rf"\bich\s+(?:melde\s+mich\b(?!\s+(?:an|ab)\b)|sage\s+{_DU}\s+bescheid|gebe\s+{_DU}\s+bescheid)",
        rf"\bich\s+(?:erinnere\s+{_DU}(?!\s+daran,?\s+dass)|halte\s+{_DU}\s+auf\s+dem\s+laufenden"
        rf"|behalte\b.{{0,60}}\bim\s+auge)",
        rf"\bich\s+werde\s+(?:mich\s+melden|{_DU}\b.{{0,60}}\b(?:erinnern|benachrichtigen|informieren"
        rf"|bescheid\s+geben))",
        r"\bich\s+komme\b.{0,30}\bdarauf\s+zurück",
    ),
    never=(
        r"\b(?:wenn|sobald|falls|sofern)\s+(?:du|ihr|sie)\b|\bfalls\b|\bsofern\b|\bsoll(?:te)?\s+ich\b"
        r"|\bnicht\b|\bkeine?n?\b|\bnie\b",
        r"\bmöchtest\b|\bwillst\b|\bwünsch\w*|\b(?:würde|könnte|kann|dürfte)\b|\bsag(?:e|en)?\s+(?:mir"
        r"|einfach|kurz|sie)\b",
        r"\blass(?:t|en)?\s+(?:es\s+)?mich\b|\bbeispiel\w*|\b(?:sofort|jetzt|gleich)\b|\bkünftig\b"
        r"|\bin\s+zukunft\b|\bnächstes\s+mal\b",
        r"\boder\s+ich\b|\b(?:sagte|schrieb|er|sie|du)\s*:\s*ich\b",
    ),
    amount=r"\bin\s+(einer\s+halben|einer|einem|ein\s+paar|zwei|drei|fünf|zehn|\d{1,3})\s+(minute|stunde|tag|woche)",
    numbers={"einer": 1, "einem": 1, "einer halben": 0.5, "ein paar": 3, "zwei": 2, "drei": 3, "fünf": 5, "zehn": 10},
    units=("minute", "stunde", "tag", "woche"),
    days={
        "evening": r"heute\s+(?:abend|nacht)|jeden\s+abend",
        "afternoon": r"heute\s+(?:nachmittag|mittag)",
        "overmorrow": r"\bübermorgen\b",
        "tomorrow": r"\bmorgen\b|jeden\s+tag|\btäglich\b",
        "week": r"nächste\s+woche|jede\s+woche",
    },
    clock=r"\bum\s+(\d{1,2})(?::(\d\d))?\s*()uhr",
)
