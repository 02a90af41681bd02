"""French: how promises sound. A table; `commitments` reads it."""

from __future__ import annotations

from palinurus.core.languages.row import LanguageTable, build_gap_pattern

_DAY = r"(?:lundi|mardi|mercredi|jeudi|vendredi|samedi|dimanche)"
_TIMES = (
    r"(?<!\bpour )(?<!\bde )(?<!\bdu )(?<!\ble )\b(?:ce\s+soir|cette\s+nuit|cet(?:te)?\s+après-midi|demain"
    r"|après-demain|plus\s+tard"
    rf"|la\s+semaine\s+prochaine|le\s+mois\s+prochain|{_DAY}(?:\s+prochain)?|d['’]ici\s+(?:{_DAY}"
    rf"|demain|ce\s+soir)"
    r"|dans\s+(?:une?|deux|trois|cinq|dix|quelques|une\s+demi-|\d{1,3})\s*(?:minutes?|heures?|jours?|semaines?)"
    r"|à\s+\d{1,2}\s*(?:h|heures?)\s*(?:\d\d)?|chaque\s+(?:jour|heure|matin|soir|semaine)"
    r"|tous\s+les\s+(?:jours|matins|soirs)"
    r"|en\s+fin\s+de\s+journée)\b"
)
_STEMS = (
    r"(?:vérifi|regard|prépar|contrôl|test|continu|demand|appell|recherch|cherch|publi|partag|résum|surveill"
    r"|relanc|termin"
    r"|essai|essay|réessai|réessay|envoi|consult|examin|jett)"
)
_DO = (
    rf"\bje\s+(?:(?:te|vous|le|la|les|lui|leur|y)\s+|[tl]['’])*(?:{_STEMS}erai|(?:r?enverrai|ferai"
    rf"|re?verrai|finirai|écrirai"
    rf"|reprendrai|mettrai|relirai)|vais\s+(?:(?:te|vous|le|la|les|lui|y)\s+|[tl]['’])*"
    rf"(?:{_STEMS}er|envoyer|appeler|jeter|faire|(?:re)?voir|finir|écrire|reprendre|mettre|relire))\b"
)
_BETWEEN = build_gap_pattern(
    "pour", "que", "qui", "si", "quel\\w*", "comment", "calendrier", "agenda", "météo", "réunions?", "événements?",
    "rendez-vous", "prévue?s?", "intitulée?s?",
)  # fmt: skip
_YOU = r"(?:te|vous)"

FRENCH = LanguageTable(
    mark=r"\bje\b",
    promise=(
        rf"{_DO}{_BETWEEN}{_TIMES}",
        rf"(?:^){_TIMES},?\s+{_DO}",
        rf"\bje\s+(?:vais\s+)?{_YOU}\s+(?:tiens|tiendrai|tenir)\s+(?:au\s+courant|informée?s?)",
        r"\bje\s+(?:reviens|reviendrai|vais\s+revenir)\s+vers\s+(?:toi|vous)|\bje\s+garde(?:rai)?\s+un\s+œil",
        rf"\bje\s+{_YOU}\s+(?:recontacte|recontacterai|préviens|préviendrai|avertis|avertirai|notifierai"
        rf"|ferai\s+(?:signe|savoir))\b",
        rf"\bje\s+(?:{_YOU}\s+rappellerai|vais\s+{_YOU}\s+rappeler)(?!\s+(?:que|qu['’]))",
    ),
    never=(
        r"\bsi\b|\bs['’]il\b|\b(?:dès\s+que|quand|lorsque|une\s+fois\s+que)\s+(?:tu|vous)\b|\bvoulez-vous\b"
        r"|\bveux-tu\b|\bsouhait\w+",
        r"\b(?:puis|dois)-je\b|\b(?:pourrais|devrais|peux)\b|\bpar\s+exemple\b|\btout\s+de\s+suite\b"
        r"|\bmaintenant\b|\bimmédiatement\b",
        r"\b(?:dis|dites)-moi\b|\bla\s+prochaine\s+fois\b|\bdésormais\b|\bà\s+l['’]avenir\b|\bne\b|\bn['’]"
        r"|\bpas\b|\bjamais\b",
        r"\b(?:dit|écrit)\s*:",
    ),
    amount=r"\bdans\s+(une\s+demi-|une?|deux|trois|cinq|dix|quelques|\d{1,3})\s*(minute|heure|jour|semaine)",
    numbers={"un": 1, "une": 1, "une demi-": 0.5, "quelques": 3, "deux": 2, "trois": 3, "cinq": 5, "dix": 10},
    units=("minute", "heure", "jour", "semaine"),
    days={
        "evening": r"ce\s+soir|cette\s+nuit|(?:chaque|tous\s+les)\s+soirs?",
        "afternoon": r"cet(?:te)?\s+après-midi|fin\s+de\s+journée",
        "overmorrow": r"après-demain",
        "tomorrow": r"\bdemain\b|chaque\s+(?:jour|matin)|tous\s+les\s+(?:jours|matins)",
        "week": r"semaine\s+prochaine|chaque\s+semaine",
    },
    clock=r"\bà\s+(\d{1,2})\s*(?:h|heures?)\s*(\d\d)?()",
)
