// The SDK's own client, unmodified, with `pal acp` as its agent: prints what it met as one JSON object.
// Arguments: the SDK's module, the project's folder, the command …
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

const [module, cwd, command, ...args] = process.argv.slice(2);
const acp = await import(module);
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const seen = { updates: [], asked: [], refused: "", hands: [] };
const buffers = { [`${cwd}/open.txt`]: "typed, not saved" };

const editor = acp
  .client({ name: "compat" })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    seen.asked.push(params.toolCall.title);
    return { outcome: { outcome: "selected", optionId: params.options[0].optionId } };
  })
  .onRequest(acp.methods.client.fs.readTextFile, ({ params }) => {
    seen.hands.push(["read", params.path]);
    return { content: buffers[params.path] ?? readFileSync(params.path, "utf8") };
  })
  .onRequest(acp.methods.client.fs.writeTextFile, ({ params }) => {
    seen.hands.push(["write", params.path]);
    buffers[params.path] = params.content;
    writeFileSync(params.path, params.content);
    return {};
  })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    seen.updates.push(params.update);
  });

await editor.connectWith(stream, async (agent) => {
  const ask = acp.methods.agent;
  seen.hello = await agent.request(ask.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
  });
  seen.made = await agent.request(ask.session.new, { cwd, mcpServers: [] });
  const sessionId = seen.made.sessionId;
  const prompt = [{ type: "text", text: "write made.txt with hello" }];
  seen.done = await agent.request(ask.session.prompt, { sessionId, prompt });
  await agent.request(ask.session.prompt, { sessionId, prompt: [{ type: "text", text: "read open.txt" }] });
  await agent.request(ask.session.setMode, { sessionId, modeId: "plan" });
  seen.listed = await agent.request(ask.session.list, { cwd });
  seen.loaded = await agent.request(ask.session.load, { sessionId, cwd, mcpServers: [] });
  try {
    await agent.request(ask.session.prompt, { sessionId: "nobody", prompt });
  } catch (error) {
    seen.refused = String(error.message ?? error);
  }
});
child.stdin.end();
const code = await new Promise((end) => child.on("exit", end));
console.log(JSON.stringify({ ...seen, code }));
