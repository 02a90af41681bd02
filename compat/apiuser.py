"""Real clients of OpenAI's API, run by an environment that has them: `apiuser.py WHO BASE KEY`; a row of JSON a check.
The model behind the gateway is a mock: it says what follows SAY, and calls what follows TOOL."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import traceback
import wave
from collections.abc import Callable
from typing import Any

WHO, BASE, KEY = sys.argv[1:4]
WEATHER = {
    "name": "get_weather",
    "description": "The weather in a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL = 'TOOL get_weather {"city": "Rome"}\nSAY It is sunny.'
SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "required": ["name"],
    "additionalProperties": False,
}
ADA = 'SAY {"name": "Ada"}'


def check(name: str, work: Callable[[], object]) -> None:
    """One row: true is well, everything else is shown."""
    try:
        said = work()
    except Exception:  # noqa: BLE001  (what a client raises is what is to be seen)
        said = traceback.format_exc()[-1500:]
    print(json.dumps({"name": name, "ok": said is True, "said": str(said)}), flush=True)


def refused(work: Callable[[], object], word: str) -> object:
    """True if it is refused with a sentence that has the word."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001
        return True if word in str(error) else f"refused otherwise: {error}"


def user(text: str) -> list[dict[str, Any]]:
    """One message."""
    return [{"role": "user", "content": text}]


def make_sound() -> bytes:
    """A tenth of a second of nothing."""
    data = io.BytesIO()
    with wave.open(data, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(8000)
        out.writeframes(bytes(1600))
    return data.getvalue()


def walk_tree() -> object:
    """Those that make a request at all."""
    import apitree

    heard = list(apitree.walk(BASE, KEY))
    called = [one for one in heard if one.statuses]
    return (len(called) > 400 and not any(one.wrong for one in heard)) or (len(called), [h for h in heard if h.wrong])


def use_openai() -> None:
    """The official package: chat."""
    import openai

    client: Any = openai.OpenAI(base_url=BASE, api_key=KEY, max_retries=0)
    chat = client.chat.completions

    def ask(text: str, **more: Any) -> Any:
        return chat.create(model="openclaw", messages=user(text), **more)

    def stream() -> object:
        parts = list(ask("SAY one two three", stream=True, stream_options={"include_usage": True}))
        text = "".join(one.choices[0].delta.content or "" for one in parts if one.choices)
        return (text == "one two three" and parts[-1].usage.total_tokens > 0) or (text, parts[-1])

    def tools(streamed: bool) -> object:
        offered = [{"type": "function", "function": WEATHER}]
        messages = user(CALL)
        if streamed:
            with chat.stream(model="openclaw", messages=messages, tools=offered) as told:
                first = told.until_done().get_final_completion().choices[0]
        else:
            first = chat.create(model="openclaw", messages=messages, tools=offered).choices[0]
        (call,) = first.message.tool_calls
        assert first.finish_reason == "tool_calls" and json.loads(call.function.arguments) == {"city": "Rome"}
        asked = {
            "id": call.id,
            "type": "function",
            "function": {"name": "get_weather", "arguments": '{"city": "Rome"}'},
        }
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": call.id, "content": "sunny"},
        ]
        said = chat.create(model="openclaw", messages=messages, tools=offered).choices[0].message.content
        return said == "It is sunny." or said

    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}
    check("models", lambda: "openclaw" in [one.id for one in client.models.list()])
    check("chat", lambda: ask("SAY hello").choices[0].message.content == "hello")
    check("stream with usage", stream)
    check("tools, round trip", lambda: tools(False))
    check("tools, streamed", lambda: tools(True))
    check(
        "json_schema", lambda: json.loads(ask(ADA, response_format=form).choices[0].message.content) == {"name": "Ada"}
    )
    check(
        "json_object",
        lambda: (
            json.loads(ask(ADA, response_format={"type": "json_object"}).choices[0].message.content) == {"name": "Ada"}
        ),
    )
    check("stop, top_p, seed are taken", lambda: bool(ask("SAY x", stop=["END"], top_p=0.5, seed=7).choices))
    check("n=2 is refused", lambda: refused(lambda: ask("SAY x", n=2), "n is not supported"))
    check("logprobs are refused", lambda: refused(lambda: ask("SAY x", logprobs=True), "logprobs"))
    use_responses(client)
    check("every method is answered, or refused in OpenAI's form", walk_tree)
    use_assets(client)


def use_responses(client: Any) -> None:
    """The official package: responses and conversations."""
    make = client.responses.create

    def follow() -> object:
        first = make(model="openclaw", input="SAY one")
        second = make(model="openclaw", input="SAY two", previous_response_id=first.id)
        again = client.responses.retrieve(first.id)
        (asked,) = client.responses.input_items.list(first.id).data
        found = (again.output_text, second.output_text, asked.content[0].text)
        return found == ("one", "two", "SAY one") or found

    def stream() -> object:
        told = list(make(model="openclaw", input="SAY one two", stream=True))
        ident = told[0].response.id
        again = list(client.responses.retrieve(ident, stream=True))
        rest = list(client.responses.retrieve(ident, stream=True, starting_after=told[2].sequence_number))
        ends = [one[-1].response.output_text for one in (told, again, rest)]
        return (ends == ["one two"] * 3 and rest[0].sequence_number == told[2].sequence_number + 1) or ends

    def background() -> object:
        begun = make(model="openclaw", input="SAY later", background=True)
        last = list(client.responses.retrieve(begun.id, stream=True))[-1]
        return (begun.status == "queued" and last.response.output_text == "later") or last

    def talk() -> object:
        made = client.conversations.create(metadata={"topic": "paint"}, items=user("my colour is teal"))
        make(model="openclaw", input="SAY teal", conversation=made.id)
        items = [one.content[0].text for one in client.conversations.items.list(made.id, order="asc").data]
        kept = client.conversations.retrieve(made.id).metadata
        found = (items, kept)
        return found == (["my colour is teal", "SAY teal", "teal"], {"topic": "paint"}) or found

    def tools() -> object:
        offered = [{"type": "function", "strict": False, **WEATHER}]
        first = make(model="openclaw", input=CALL, tools=offered)
        (call,) = first.output
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        said = make(model="openclaw", input=[result], previous_response_id=first.id, tools=offered).output_text
        return said == "It is sunny." or said

    form = {"format": {"type": "json_schema", "name": "person", "schema": SCHEMA, "strict": True}}
    check("responses: go on, retrieve, input items", follow)
    check("responses: stream, and again", stream)
    check("responses: background", background)
    check("responses: conversation with items and metadata", talk)
    check("responses: tools", tools)
    check(
        "responses: json_schema",
        lambda: json.loads(make(model="openclaw", input=ADA, text=form).output_text) == {"name": "Ada"},
    )


def use_assets(client: Any) -> None:
    """The official package: embeddings and sound."""

    def embed() -> object:
        try:
            return len(client.embeddings.create(model="x", input=["a", "b"]).data) == 2
        except Exception as error:  # noqa: BLE001  (without a model the answer names the command)
            return (("503" in str(error) or "no model" in str(error)) and "pal " in str(error)) or error

    def hear() -> object:
        return (
            client.audio.transcriptions.create(model="whisper-1", file=("a.wav", make_sound())).text == "good morning"
            or "?"
        )

    def speak() -> object:
        return len(client.audio.speech.create(model="tts-1", voice="alloy", input="hello").content) > 40

    check("embeddings, or the command that brings them", embed)
    check("audio: transcriptions", hear)
    check("audio: speech", speak)


def use_litellm() -> None:
    """litellm."""
    import litellm

    given = {"model": "openai/openclaw", "api_base": BASE, "api_key": KEY}
    form = {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA, "strict": True}}

    def stream() -> object:
        text = "".join(
            one.choices[0].delta.content or ""
            for one in litellm.completion(messages=user("SAY a b"), stream=True, **given)
        )
        return text == "a b" or text

    def tools() -> object:
        offered = [{"type": "function", "function": WEATHER}]
        first = litellm.completion(messages=user(CALL), tools=offered, **given).choices[0].message
        result = {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": "sunny"}
        talk = [*user(CALL), first.model_dump(), result]
        return litellm.completion(messages=talk, tools=offered, **given).choices[0].message.content == "It is sunny."

    check("chat", lambda: litellm.completion(messages=user("SAY hi"), **given).choices[0].message.content == "hi")
    check("stream", stream)
    check("tools", tools)
    check(
        "json_schema",
        lambda: (
            json.loads(litellm.completion(messages=user(ADA), response_format=form, **given).choices[0].message.content)
            == {"name": "Ada"}
        ),
    )
    check("responses", lambda: "hi" in str(litellm.responses(input="SAY hi", **given).output))
    check(
        "n=2 is refused",
        lambda: refused(lambda: litellm.completion(messages=user("SAY x"), n=2, **given), "n is not supported"),
    )


def use_langchain() -> None:
    """langchain-openai."""
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from pydantic import BaseModel

    class Person(BaseModel):
        name: str

    @tool
    def get_weather(city: str) -> str:
        """The weather in a city."""
        return "sunny"

    model = ChatOpenAI(model="openclaw", base_url=BASE, api_key=KEY, max_retries=0)

    def tools() -> object:
        bound = model.bind_tools([get_weather])
        first = bound.invoke(CALL)
        result = get_weather.invoke(first.tool_calls[0])
        said = bound.invoke([("user", CALL), first, result]).content
        return said == "It is sunny." or said

    check("invoke", lambda: model.invoke("SAY hi").content == "hi")
    check("stream", lambda: "".join(one.content for one in model.stream("SAY a b")) == "a b")
    check("batch", lambda: [one.content for one in model.batch(["SAY a", "SAY b"])] == ["a", "b"])
    check("tools", tools)
    check(
        "structure by json_schema",
        lambda: model.with_structured_output(Person, method="json_schema").invoke(ADA) == Person(name="Ada"),
    )
    responses = ChatOpenAI(model="openclaw", base_url=BASE, api_key=KEY, use_responses_api=True, max_retries=0)
    check("responses", lambda: "hi" in str(responses.invoke("SAY hi").content))


def use_llm() -> None:
    """The command `llm`."""
    home = os.environ["LLM_USER_PATH"]
    os.makedirs(home, exist_ok=True)
    with open(os.path.join(home, "extra-openai-models.yaml"), "w") as out:
        out.write(f"- model_id: pal\n  model_name: openclaw\n  api_base: {BASE}\n  api_key_name: pal\n")
        out.write("  supports_schema: true\n  supports_tools: true\n")
    with open(os.path.join(home, "keys.json"), "w") as out:
        json.dump({"pal": KEY}, out)
    program = os.path.join(os.path.dirname(sys.executable), "llm")

    def run(*words: str, given: str = "") -> str:
        done = subprocess.run([program, *words], input=given, capture_output=True, text=True, timeout=120)
        return done.stdout.strip() or done.stderr

    check("prompt", lambda: (said := run("-m", "pal", "SAY hi")) == "hi" or said)
    check("pipe", lambda: (said := run("-m", "pal", given="SAY piped")) == "piped" or said)
    check("without streaming", lambda: (said := run("-m", "pal", "--no-stream", "SAY hi")) == "hi" or said)
    check(
        "schema",
        lambda: (
            ((said := run("-m", "pal", "--schema", json.dumps(SCHEMA), ADA)) and json.loads(said) == {"name": "Ada"})
            or said
        ),
    )
    weather = 'def get_weather(city: str) -> str:\n    "The weather"\n    return "sunny"\n'
    check("functions", lambda: (said := run("-m", "pal", "--functions", weather, CALL)) == "It is sunny." or said)
    check("go on", lambda: (said := run("-c", "SAY more")) == "more" or said)


{"openai": use_openai, "litellm": use_litellm, "langchain": use_langchain, "llm": use_llm}[WHO]()
