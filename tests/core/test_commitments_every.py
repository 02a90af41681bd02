"""Promises in other languages, measured as the English ones are: some sentences are some, others only look it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palinurus.core.commitments import find_promises, list_languages, parse_due_time
from palinurus.core.languages.row import PromiseLanguage

PROMISES = {
    "de": """
Ich schaue heute Abend noch einmal nach.
Ich prüfe den Build morgen früh noch einmal.
Alles klar. Ich werde mir die Logs heute Abend ansehen.
Ich melde mich mit den Zahlen.
Ich erinnere dich an den Zahnarzt.
Ich behalte das Deployment im Auge.
Ich gebe dir Bescheid, sobald das Backup fertig ist.
Ich versuche es in zehn Minuten noch einmal.
Morgen prüfe ich das noch einmal.
Ich schicke Ihnen die Zusammenfassung um 17 Uhr.
Ich halte dich auf dem Laufenden.
Ich werde dich am Montag daran erinnern.
Ich sehe mir das nächste Woche an.
""",
    "es": """
Lo revisaré esta noche.
Voy a comprobar la compilación mañana por la mañana.
Te aviso cuando termine la copia.
Te recordaré lo del dentista.
Te mantendré al tanto.
Volveré a mirar dentro de una hora.
Enviaré el resumen a las 17:00.
Estaré pendiente del despliegue.
Mañana lo revisaré otra vez.
Intentaré de nuevo en 10 minutos.
Me pondré en contacto con usted el lunes.
Echaré un vistazo más tarde.
""",
    "fr": """
Je vérifierai ce soir.
Je vais regarder les journaux demain matin.
Je te tiens au courant.
Je reviens vers vous avec les chiffres.
Je vous préviens dès que la sauvegarde est finie.
Je te rappellerai le rendez-vous chez le dentiste.
Je vais réessayer dans dix minutes.
J'ai vu l'erreur ; je l'examinerai plus tard.
Demain, je vérifierai encore une fois.
Je garde un œil sur le déploiement.
Je vous enverrai le résumé à 17 h.
Je relirai le reste lundi.
""",
    "pt": """
Vou verificar hoje à noite.
Verificarei os registros amanhã de manhã.
Te aviso quando o backup terminar.
Vou te lembrar do dentista.
Vou ficar de olho na implantação.
Vou tentar de novo em dez minutos.
Enviarei o resumo às 17h.
Entrarei em contato na segunda-feira.
Amanhã vou olhar outra vez.
Vou dar uma olhada mais tarde.
Manterei você informado.
Vou te mandar o relatório até sexta.
""",
    "it": """
Controllerò stasera.
Guarderò i log domani mattina.
Ti faccio sapere quando il backup è finito.
Ti ricorderò del dentista.
Terrò d'occhio il rilascio.
Riproverò tra dieci minuti.
Ti mando il riassunto alle 17.
Ti tengo aggiornato.
Domani lo ricontrollerò.
Darò un'occhiata più tardi.
Verificherò la coda entro venerdì.
Ti avviso appena il prezzo scende.
""",
}

OTHERS = {
    "de": """
Ich prüfe das.
Ich prüfe das jetzt.
Soll ich dich morgen erinnern?
Wenn du möchtest, erinnere ich dich morgen.
Ich schaue heute Abend nach, wenn du willst.
Ich kann heute Abend nachsehen.
Ich könnte dich morgen erinnern.
Ich prüfe das Wetter für morgen.
Ich prüfe, was morgen in deinem Kalender steht.
Die Aufgabe läuft morgen um 9 Uhr.
Ich werde heute Abend nicht prüfen.
Ich nehme die spätere Version.
Ich erinnere dich daran, dass die Schnittstelle begrenzt ist.
Du kannst es morgen starten.
Er schrieb: „Ich melde mich morgen.“
Bis morgen!
Ich schreibe den Eintrag unter morgen.
Sag mir Bescheid, dann mache ich morgen weiter.
Ich habe es gestern Abend geprüft.
Ich suche Flüge für nächste Woche.
""",
    "es": """
Lo revisaré.
Lo revisaré ahora mismo.
¿Quieres que te lo recuerde mañana?
Si quieres, te aviso mañana.
Te aviso cuando quieras.
Puedo revisarlo esta noche.
Podría recordártelo mañana.
Revisaré el tiempo para mañana.
Buscaré vuelos para la próxima semana.
La tarea se ejecuta mañana a las 9.
No lo revisaré esta noche.
Te recordaré que la API tiene límites.
Puedes ejecutarlo mañana.
Resumiré las noticias de esta tarde.
Hasta mañana.
Lo revisé anoche.
Usaré la segunda opción.
Buscaré trenes que salen a las 8:30.
""",
    "fr": """
Je vérifie.
Je vérifierai tout de suite.
Voulez-vous que je vous le rappelle demain ?
Si vous voulez, je vérifierai ce soir.
Je peux vérifier ce soir.
Je pourrais te le rappeler demain.
Je vais regarder la météo pour demain.
Je chercherai des vols pour la semaine prochaine.
La tâche s'exécute demain à 9 h.
Je ne vérifierai pas ce soir.
Je vous rappelle que l'API est limitée.
Je te rappellerai que l'API est limitée.
Vous pouvez le lancer demain.
Je vais résumer les nouvelles de ce soir.
À demain !
J'ai vérifié hier soir.
Je continuerai dès que vous aurez confirmé demain.
J'utiliserai la deuxième option.
""",
    "pt": """
Vou verificar.
Vou verificar agora.
Quer que eu te lembre amanhã?
Se quiser, te aviso amanhã.
Posso verificar hoje à noite.
Poderia te lembrar amanhã.
Vou verificar o tempo para amanhã.
Vou buscar voos para a próxima semana.
A tarefa roda amanhã às 9h.
Não vou verificar hoje à noite.
Vou te lembrar que a API tem limites.
Você pode executar amanhã.
Vou resumir as notícias de hoje à tarde.
Até amanhã!
Verifiquei ontem à noite.
Vou usar a segunda opção.
Te aviso quando você confirmar.
""",
    "it": """
Controllo.
Controllo subito.
Vuoi che te lo ricordi domani?
Se vuoi, ti avviso domani.
Posso controllare stasera.
Potrei ricordartelo domani.
Controllerò il meteo per domani.
Cercherò voli per la prossima settimana.
Il lavoro parte domani alle 9.
Non controllerò stasera.
Ti ricordo che l'API ha dei limiti.
Puoi eseguirlo domani.
Riassumerò le notizie di stasera.
A domani!
Ho controllato ieri sera.
Userò la seconda opzione.
Ti avviso quando mi confermi.
Il controllo domani è gratuito.
""",
}


@pytest.mark.parametrize("tongue", list(PROMISES))
def test_few_false_alarms_and_few_misses(tongue: str) -> None:
    lines = {True: PROMISES[tongue].strip().splitlines(), False: OTHERS[tongue].strip().splitlines()}
    wrong = [line for line in lines[False] if find_promises(line)]
    missed = [line for line in lines[True] if not find_promises(line)]
    assert not wrong
    assert len(missed) <= 1, missed


@pytest.mark.parametrize(
    ("text", "then"),
    [
        ("Ich schaue heute Abend nach", "2026-03-10T20:00"),
        ("Ich prüfe es morgen um 7:30 Uhr", "2026-03-11T07:30"),
        ("Ich versuche es in einer halben Stunde", "2026-03-10T12:30"),
        ("Ich sehe übermorgen nach", "2026-03-12T09:00"),
        ("Lo revisaré mañana a las 8", "2026-03-11T08:00"),
        ("Volveré a mirar dentro de dos horas", "2026-03-10T14:00"),
        ("Lo revisaré esta noche", "2026-03-10T20:00"),
        ("Lo revisaré dentro de un día", "2026-03-11T12:00"),
        ("Je vérifierai demain à 8 h 15", "2026-03-11T08:15"),
        ("Je réessaierai dans une demi-heure", "2026-03-10T12:30"),
        ("Je regarderai la semaine prochaine", "2026-03-17T09:00"),
        ("Vou verificar amanhã às 7h30", "2026-03-11T07:30"),
        ("Vou tentar daqui a três dias", "2026-03-13T12:00"),
        ("Controllerò domani alle 8.30", "2026-03-11T08:30"),
        ("Riproverò tra mezz'ora", "2026-03-10T12:30"),
        ("Riproverò tra un’ora", "2026-03-10T13:00"),
        ("Ti faccio sapere", "2026-03-10T13:00"),
    ],
)
def test_when_it_is_due(text: str, then: str) -> None:
    now = int(datetime(2026, 3, 10, 12, tzinfo=UTC).timestamp() * 1000)
    assert datetime.fromtimestamp(parse_due_time(text, now, "UTC") / 1000, UTC).isoformat()[:16] == then


WORDS = sorted({word for tongue in list_languages() for word in (*tongue.numbers, *tongue.units)})
BEFORE = ["in", "dans", "en", "em", "dentro de", "daqui a", "tra", "fra", "um", "at", "às", "alle", "a las", "à"]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from([*WORDS, *BEFORE, "7", "99", "12:75", "uhr", "h", "demi-", "ora"]), max_size=6))
def test_whatever_stands_there_it_is_some_time_or_none(words: list[str]) -> None:
    now = 1_772_000_000_000
    assert parse_due_time(" ".join(words), now, "Europe/Berlin") > now
    find_promises("Ich prüfe das " + " ".join(words))


@pytest.mark.parametrize("tongue", list_languages())
def test_every_number_of_a_table_is_understood(tongue: PromiseLanguage) -> None:
    for word in tongue.numbers:
        gap = "" if word[-1] in "-'’" else " "
        texts = [f"{before} {word}{gap}{unit}" for before in BEFORE for unit in tongue.units]
        assert any(tongue.amount.search(text) for text in texts), word


def test_every_promise_has_the_mark_of_its_language() -> None:
    """The mark is asked first; a promise without it would not be heard."""
    lines = [line for text in PROMISES.values() for line in text.strip().splitlines()]
    heard = [(one, line) for line in lines for one in list_languages() if one.promise.search(line)]
    assert len(heard) >= len(lines) * 0.8, "the corpus speaks these languages"
    assert not [line for one, line in heard if not one.mark.search(line)]
