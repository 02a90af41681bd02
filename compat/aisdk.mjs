// Vercel's AI SDK with both of its providers: `aisdk.mjs BASE KEY`; a row of JSON a check.
import { generateText, streamText, Output, tool, jsonSchema, stepCountIs, embed } from "ai";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";

const [base, key] = process.argv.slice(2);
const own = createOpenAI({ baseURL: base, apiKey: key });
const compatible = createOpenAICompatible({ name: "pal", baseURL: base, apiKey: key, supportsStructuredOutputs: true });
const schema = jsonSchema({ type: "object", properties: { name: { type: "string" } }, required: ["name"], additionalProperties: false });
const city = jsonSchema({ type: "object", properties: { city: { type: "string" } }, required: ["city"], additionalProperties: false });
const tools = { get_weather: tool({ description: "The weather in a city", inputSchema: city, execute: async () => "sunny" }) };
const call = 'TOOL get_weather {"city": "Rome"}\nSAY It is sunny.';

async function check(name, work) {
  let said;
  try { said = await work(); } catch (error) { said = `${error?.stack || error}\n${error?.responseBody || ""}`; }
  console.log(JSON.stringify({ name, ok: said === true, said: String(said).slice(0, 1500) }));
}

for (const [name, model] of [["openai", own("openclaw")], ["openai, chat", own.chat("openclaw")], ["openai-compatible", compatible("openclaw")]]) {
  const ask = { model, maxRetries: 0 };
  await check(`${name}: text`, async () => (await generateText({ ...ask, prompt: "SAY hi" })).text === "hi");
  await check(`${name}: stream`, async () => {
    let text = "";
    for await (const part of streamText({ ...ask, prompt: "SAY a b" }).textStream) text += part;
    return text === "a b" || text;
  });
  await check(`${name}: tool loop`, async () => {
    const told = await generateText({ ...ask, prompt: call, tools, stopWhen: stepCountIs(3) });
    return (told.text === "It is sunny." && told.steps.length === 2) || told.text;
  });
  await check(`${name}: tool loop, streamed`, async () => {
    const told = streamText({ ...ask, prompt: call, tools, stopWhen: stepCountIs(3) });
    const text = await told.text;
    return text === "It is sunny." || text;
  });
  await check(`${name}: object`, async () => {
    const told = await generateText({ ...ask, prompt: 'SAY {"name": "Ada"}', output: Output.object({ schema }) });
    return told.output.name === "Ada" || JSON.stringify(told.output);
  });
}
await check("openai-compatible: embeddings, or the command that brings them", async () => {
  try {
    return (await embed({ model: compatible.embeddingModel("x"), value: "a", maxRetries: 0 })).embedding.length > 10;
  } catch (error) { return String(error.responseBody || error).includes("pal ") || String(error); }
});
