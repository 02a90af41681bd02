// The npm SDK: its client against our server (`mcpuser.mjs FOLDER http URL KEY`, `… stdio COMMAND …`; a row of JSON a
// check), and its server for our client (`… serve`). FOLDER has the packages.
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [folder, way, ...rest] = process.argv.slice(2);
const find = createRequire(`${folder}/package.json`);
const load = (name) => import(pathToFileURL(find.resolve(name)).href);
const tell = (name, ok, said = '') =>
  console.log(JSON.stringify({ name, ok: Boolean(ok), said: JSON.stringify(said).slice(0, 1500) }));

async function serve() {
  const { McpServer } = await load('@modelcontextprotocol/server');
  const { serveStdio } = await load('@modelcontextprotocol/server/stdio');
  const z = await load('zod');
  serveStdio(() => {
    const server = new McpServer({ name: 'npm', version: '1' }, { capabilities: { tools: {}, resources: {}, prompts: {} } });
    const text = (words) => ({ content: [{ type: 'text', text: words }] });
    server.registerTool('add', { description: 'Adds', inputSchema: z.object({ a: z.number(), b: z.number() }) },
      async ({ a, b }) => text(`sum ${a + b}`));
    server.registerTool('shape', { description: 'Structured', outputSchema: z.object({ side: z.number() }) },
      async () => ({ ...text('a square'), structuredContent: { side: 2 } }));
    server.registerTool('fail', { description: 'Fails' }, async () => { throw new Error('on purpose'); });
    server.registerTool('binary', { description: 'A picture' },
      async () => ({ content: [{ type: 'image', data: 'iVBORw0KGgo=', mimeType: 'image/png' }] }));
    server.registerResource('note', 'note://one', { description: 'A note' },
      async (uri) => ({ contents: [{ uri: uri.href, text: 'the note' }] }));
    server.registerPrompt('greet', { description: 'Greets' },
      async () => ({ messages: [{ role: 'user', content: { type: 'text', text: 'say hello' } }] }));
    return server;
  });
}

async function visit(mode) {
  const { Client, StreamableHTTPClientTransport } = await load('@modelcontextprotocol/client');
  const { StdioClientTransport } = await load('@modelcontextprotocol/client/stdio');
  const transport = way === 'http'
    ? new StreamableHTTPClientTransport(new URL(rest[0]), { requestInit: { headers: { Authorization: `Bearer ${rest[1]}` } } })
    : new StdioClientTransport({ command: rest[0], args: rest.slice(1) });
  const client = new Client({ name: 'compat', version: '1' }, { versionNegotiation: { mode } });
  const named = (name) => `${mode}: ${name}`;
  await client.connect(transport);
  tell(named('connect'), client.getServerVersion()?.name, client.getServerVersion());
  const tools = (await client.listTools()).tools.map((one) => one.name);
  tell(named('tools'), tools.includes('read') && tools.includes('sessions_send'), tools);
  const read = await client.callTool({ name: 'read', arguments: { path: 'note.txt' } });
  tell(named('a call'), JSON.stringify(read).includes('inside'), read);
  const refused = await client.callTool({ name: 'exec', arguments: { command: 'id' } }).catch((error) => ({ isError: true, error: `${error}` }));
  tell(named('an error'), refused.isError, refused);
  const steps = [];
  const said = await client.callTool({ name: 'sessions_send', arguments: { message: 'read note.txt' } }, { onprogress: (one) => steps.push(one) });
  tell(named('speaking to the agent, with its steps'), JSON.stringify(said).includes('inside') && steps.length, said);
  const resources = (await client.listResources()).resources;
  tell(named('resources'), resources.length, resources);
  const content = (await client.readResource({ uri: 'session://agent%3Amain%3Amain' })).contents;
  tell(named('reading one'), JSON.stringify(content).includes('note.txt'), content);
  const prompts = (await client.listPrompts()).prompts;
  tell(named('prompts'), prompts.length, prompts);
  tell(named('a prompt'), (await client.getPrompt({ name: prompts[0].name })).messages.length);
  await client.close();
}

if (way === 'serve') await serve();
else for (const mode of ['legacy', 'auto']) await visit(mode);
