from palinurus.config.sections.models import ModelSettings, ProviderSettings
from palinurus.config.sections.tools import ExecSettings
from palinurus.config.settings import AgentSettings, Secret, Settings

CANARY = "canary-1618033"


def test_a_secret_is_never_printed() -> None:
    found = Secret(CANARY)
    assert found
    assert found.reveal() == CANARY
    assert CANARY not in f"{found} {found!r} {[found]}"
    assert not Secret()


def test_settings_print_no_secret() -> None:
    held = {"Authorization": CANARY}
    model = ModelSettings("m", headers=held)
    settings = Settings(
        home="/h",
        agents={"main": AgentSettings("main", "main", "/w", model_params={"p/m": held}, params=held)},
        default_agent="main",
        providers={"p": ProviderSettings("p", api_key=Secret(CANARY), headers=held, models=(model,), params=held)},
        env={"KEY": Secret(CANARY)},
    )
    for value in (settings, ExecSettings(env=held)):
        assert CANARY not in f"{value} {value!r}"
    assert "id='p'" in repr(settings)
    assert "<1 hidden>" in repr(settings)
