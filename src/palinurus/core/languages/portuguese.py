"""Portuguese: how promises sound. A table; `commitments` reads it."""

from __future__ import annotations

from palinurus.core.languages.row import LanguageTable, build_gap_pattern

_DAY = r"(?:segunda|terça|quarta|quinta|sexta)(?:-feira)?|sábado|domingo"
_TIMES = (
    r"(?<!\bde )(?<!\bda )(?<!\bpara )\b(?:hoje\s+à\s+(?:noite|tarde)|esta\s+(?:noite|tarde)|amanhã"
    r"|depois\s+de\s+amanhã"
    rf"|mais\s+tarde|na\s+(?:próxima\s+semana|semana\s+que\s+vem)|n[ao]\s+(?:{_DAY})|até\s+(?:{_DAY}|amanhã)"
    r"|(?:em|daqui\s+a|dentro\s+de)\s+(?:uma?|dois|duas|três|cinco|dez|meia|alguns|algumas|\d{1,3})\s+"
    r"(?:minutos?|horas?|dias?|semanas?)|às\s+\d{1,2}(?:[:h]\d\d|h)?|todos?\s+(?:os\s+)?dias?|toda\s+(?:manhã"
    r"|semana|noite)"
    r"|a\s+cada\s+hora|no\s+fim\s+do\s+dia)\b"
)
_STEMS = (
    r"(?:verific|confer|olh|envi|mand|tent|test|prepar|pergunt|lig|busc|pesquis|public|compartilh|partilh|resum|monitor"
    r"|atualiz|termin|continu|revis|escrev|execut|rod|analis)"
)
_YOU = r"(?:te|lhe|o|a|os|as)"
_DO = (
    rf"(?:\b{_STEMS}(?:arei|erei|irei)\b|\bfarei\b|\bdarei\s+uma\s+olhada|\bvou\s+(?:{_YOU}\s+)?"
    rf"(?:{_STEMS}(?:ar|er|ir)|fazer|dar\s+uma\s+olhada|voltar\s+a\s+\w+)(?:-(?:te|lhe|l?[oa]s?))?\b)"
)
_BETWEEN = build_gap_pattern(
    "para", "que", "se", "qual", "como", "calendário", "agenda", "tempo", "clima", "previsão", "reuni\\w+", "eventos?",
    "sa(?:i|em)", "chamad[oa]",
)  # fmt: skip
_NUMBERS = {
    "um": 1, "uma": 1, "meia": 0.5, "alguns": 3, "algumas": 3, "dois": 2,
    "duas": 2, "três": 3, "cinco": 5, "dez": 10,
}  # fmt: skip

PORTUGUESE = LanguageTable(
    mark=r"rei\b|\bvou\b|\baviso\b|\bdou\b",
    promise=(
        rf"{_DO}{_BETWEEN}{_TIMES}",
        rf"(?:^){_TIMES},?\s+(?:eu\s+)?(?:{_YOU}\s+)?{_DO}",
        r"\b(?:te|lhe)\s+aviso\b|\baviso-(?:te|lhe)\b|\b(?:te\s+|lhe\s+)?avisarei\b|\bvou\s+(?:te\s+|lhe\s+)?avisar\b",
        r"\bvou\s+(?:te\s+|lhe\s+)?lembrar\b(?!\s+(?:de\s+)?que)|\b(?:te\s+|lhe\s+)?lembrarei\b(?!\s+(?:de\s+)?que)",
        r"\bmanterei\s+(?:você|o\s+senhor|a\s+senhora)\s+informad[oa]"
        r"|\bvou\s+(?:te\s+)?manter\s+(?:você\s+)?informad[oa]",
        r"\b(?:vou\s+ficar|ficarei)\s+de\s+olho|\b(?:vou\s+entrar|entrarei)\s+em\s+contato"
        r"|\b(?:te\s+)?dou\s+(?:um\s+)?retorno",
    ),
    never=(
        r"\bse\b|\b(?:quando|assim\s+que)\s+(?:você|quiser|puder|estiver|confirmar|me|quiseres|puderes)\b"
        r"|\bquer(?:es)?\s+que\b",
        r"\b(?:posso|poderia|devo|deveria)\b|\bpor\s+exemplo\b|\bagora\b|\bimediatamente\b|\bme\s+(?:diga"
        r"|avise)\b|\bdiga-me\b",
        r"\bda\s+próxima\s+vez\b|\bdaqui\s+em\s+diante\b|\bnão\b|\bnunca\b|\b(?:disse|escreveu)\s*:",
    ),
    amount=(
        r"\b(?:em|daqui\s+a|dentro\s+de)\s+(uma?|dois|duas|três|cinco|dez|meia|alguns|algumas"
        r"|\d{1,3})\s+(minuto|hora|dia|semana)"
    ),
    numbers=_NUMBERS,
    units=("minuto", "hora", "dia", "semana"),
    days={
        "evening": r"(?:hoje\s+à|esta|toda)\s+noite",
        "afternoon": r"(?:hoje\s+à|esta)\s+tarde|fim\s+do\s+dia",
        "overmorrow": r"depois\s+de\s+amanhã",
        "tomorrow": r"\bamanhã\b|todos?\s+(?:os\s+)?dias?|toda\s+manhã",
        "week": r"próxima\s+semana|semana\s+que\s+vem|toda\s+semana",
    },
    clock=r"\bàs\s+(\d{1,2})(?:[:h](\d\d))?()",
)
