// Draws A2UI v0.8: surfaces of components that name each other, values bound to a data model. Text is set as text and
// addresses only where they can do nothing, so what a message says is never markup.
type Json = any;
type Send = (name: string, context: Json, surface: string, component: string) => void;

class Surface {
  components = new Map<string, Json>();
  data: Json = {};
  root = "";
  constructor(readonly id: string) {}
}

const STYLE = `
:root{color-scheme:light;--bg:#fff;--text:#1f1e1b;--dim:#65625a;--line:#e3e0d8;--edge:#8d897d;--raise:#fff;--accent:#0f766e;--on:#fff;--bad:#b42318}
@media(prefers-color-scheme:dark){:root:not([data-theme=light]){color-scheme:dark;--bg:#191a1b;--text:#ececea;--dim:#a3a6a4;--line:#303334;--edge:#7d8285;--raise:#222425;--accent:#4fd1c0;--on:#06231f;--bad:#ff8f85}}
:root[data-theme=dark]{color-scheme:dark;--bg:#191a1b;--text:#ececea;--dim:#a3a6a4;--line:#303334;--edge:#7d8285;--raise:#222425;--accent:#4fd1c0;--on:#06231f;--bad:#ff8f85}
*{box-sizing:border-box}body{margin:0;background:var(--bg);color:var(--text);font:15px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{padding:1.1rem;display:grid;gap:1.1rem;max-width:60rem;margin:auto}
h1,h2,h3,h4,h5,p{margin:0;line-height:1.25}p{line-height:1.55;overflow-wrap:anywhere;white-space:pre-wrap}h1{font-size:1.65rem}h2{font-size:1.3rem}h3{font-size:1.12rem}h4,h5{font-size:1rem}
.caption{color:var(--dim);font-size:.86rem}
.row,.column,.list{display:flex;gap:.7rem;min-width:0}.row{flex-wrap:wrap;align-items:center}.column,.list{flex-direction:column}.list.across{flex-direction:row;overflow-x:auto}
.row>*{min-width:0}.grow{flex:1 1 7.5rem}
.card{border:1px solid var(--line);border-radius:14px;background:var(--raise);padding:1rem 1.1rem;box-shadow:0 1px 2px rgb(30 28 20/6%),0 8px 24px rgb(30 28 20/6%)}
.list>.card{box-shadow:none}
button{font:inherit;font-weight:550;border:1px solid var(--line);border-radius:9px;background:var(--raise);color:inherit;padding:.45rem 1rem;cursor:pointer}
button *{display:inline;white-space:nowrap}button.primary{background:var(--accent);border-color:var(--accent);color:var(--on)}button:hover{filter:brightness(.96)}button:disabled{opacity:.55;cursor:default}
label{display:grid;gap:.25rem;min-width:0}label>span{color:var(--dim);font-size:.86rem}label.check{display:flex;align-items:center;gap:.55rem}label.check>span{color:inherit;font-size:1em}
input:not([type=checkbox]),textarea{font:inherit;color:inherit;width:100%;border:1px solid var(--edge);border-radius:9px;background:var(--bg);padding:.45rem .7rem}
input[type=checkbox]{width:1.1rem;height:1.1rem;accent-color:var(--accent);flex:none}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
img{display:block;max-width:100%;border-radius:10px}img.icon{width:2rem}img.avatar{width:2.6rem;height:2.6rem;border-radius:50%;object-fit:cover}
hr{border:0;border-top:1px solid var(--line);width:100%;margin:.1rem 0}hr.up{border-top:0;border-left:1px solid var(--line);width:0;align-self:stretch;margin:0}
.unknown{border:1px dashed var(--edge);border-radius:9px;padding:.4rem .7rem;color:var(--dim);font-size:.86rem}
.empty{color:var(--dim);text-align:center;padding:2rem 1rem}`;

const SPREAD: Record<string, string> = { center: "center", end: "flex-end", start: "flex-start", spaceBetween: "space-between", spaceAround: "space-around", spaceEvenly: "space-evenly" };
const ALIGN: Record<string, string> = { center: "center", end: "flex-end", start: "flex-start", stretch: "stretch" };
const TEXTS: Record<string, string> = { h1: "h1", h2: "h2", h3: "h3", h4: "h4", h5: "h5" };
const INPUTS: Record<string, string> = { number: "number", date: "date", obscured: "password" };

const make = (tag: string, kind = "", text?: string): HTMLElement => {
  const made = document.createElement(tag);
  if (kind) made.className = kind;
  if (text !== undefined) made.textContent = text;
  return made;
};

const steps = (path: string): string[] => path.split("/").filter(Boolean);
const whole = (path: string, base: string): string => (path.startsWith("/") || !base ? path : `${base}/${path}`);
const own = (at: Json, step: string): Json => (at !== null && typeof at === "object" && Object.hasOwn(at, step) ? at[step] : undefined);

function look(data: Json, path: string): Json {
  return steps(path).reduce(own, data);
}

function put(data: Json, path: string, value: Json): void {
  const way = steps(path);
  const last = way.pop();
  if (last === undefined || way.concat(last).some((step) => step === "__proto__")) return;
  let at = data;
  for (const step of way) at = own(at, step) ?? (at[step] = {});
  at[last] = value;
}

/** [{key, valueString | valueNumber | valueBoolean | valueMap}] as an object. */
function contents(rows: Json[]): Json {
  const made: Json = {};
  for (const row of rows) {
    const kind = Object.keys(row ?? {}).find((name) => name.startsWith("value"));
    if (typeof row?.key === "string" && row.key !== "__proto__" && kind) made[row.key] = Array.isArray(row[kind]) && kind === "valueMap" ? contents(row[kind]) : row[kind];
  }
  return made;
}

/** Only pictures that ask nobody: of the document itself, or from beside it. */
function harmless(address: string): string {
  if (/^(data:image\/|blob:)/i.test(address)) return address;
  return /^[a-z][\w+.-]*:|^\/\//i.test(address) ? "" : new URL(address, new URL("../canvas/", location.href)).href;
}

export function draw(place: HTMLElement, first: Json[], send: Send): (messages: Json[]) => void {
  const style = make("style", "", STYLE);
  document.head.append(style);
  const surfaces = new Map<string, Surface>();
  let numbers = 0;
  let fresh: (() => void)[] = []; // bring what is drawn up to date with the data, without drawing it anew

  const value = (surface: Surface, bound: Json, base: string): Json => {
    if (bound === null || typeof bound !== "object") return bound;
    if (typeof bound.path === "string") {
      const found = look(surface.data, whole(bound.path, base));
      if (found !== undefined) return found;
    }
    const kind = Object.keys(bound).find((name) => name.startsWith("literal"));
    return kind ? bound[kind] : undefined;
  };
  const text = (surface: Surface, bound: Json, base: string): string => {
    const found = value(surface, bound, base);
    return found === undefined || found === null ? "" : typeof found === "object" ? JSON.stringify(found) : String(found);
  };

  const children = (surface: Surface, given: Json, base: string, depth: number): HTMLElement[] => {
    const named: string[] = Array.isArray(given) ? given : given?.explicitList ?? [];
    const made = named.map((id) => one(surface, id, base, depth));
    const template = given?.template;
    if (template) {
      const path = whole(String(template.dataBinding ?? ""), base);
      const held = look(surface.data, path);
      for (const key of held && typeof held === "object" ? Object.keys(held) : []) made.push(one(surface, template.componentId, `${path}/${key}`, depth));
    }
    return made;
  };

  const KINDS: Record<string, (surface: Surface, is: Json, base: string, depth: number, id: string) => HTMLElement> = {
    Text: (surface, is, base) => {
      const made = make(TEXTS[is.usageHint] ?? "p", is.usageHint === "caption" ? "caption" : "");
      keep(() => (made.textContent = text(surface, is.text, base)));
      return made;
    },
    Row: (surface, is, base, depth) => flow("row", surface, is, base, depth),
    Column: (surface, is, base, depth) => flow("column", surface, is, base, depth),
    List: (surface, is, base, depth) => flow(is.direction === "horizontal" ? "list across" : "list", surface, is, base, depth),
    Card: (surface, is, base, depth) => {
      const made = make("div", "card");
      if (is.child) made.append(one(surface, is.child, base, depth));
      return made;
    },
    Divider: (_surface, is) => make("hr", is.axis === "vertical" ? "up" : ""),
    Image: (surface, is, base) => {
      const address = harmless(text(surface, is.url, base));
      if (!address) return make("div", "unknown", "picture from elsewhere: not shown");
      const made = make("img", is.usageHint === "avatar" || is.usageHint === "icon" ? is.usageHint : "") as HTMLImageElement;
      made.src = address;
      made.alt = text(surface, is.altText ?? is.alt, base);
      return made;
    },
    Button: (surface, is, base, depth, id) => {
      const made = make("button", is.primary ? "primary" : "") as HTMLButtonElement;
      made.type = "button";
      if (is.child) made.append(one(surface, is.child, base, depth));
      else made.textContent = text(surface, is.label, base);
      made.addEventListener("click", () => {
        const context: Json = {};
        for (const row of is.action?.context ?? []) if (typeof row?.key === "string") context[row.key] = value(surface, row.value, base) ?? null;
        send(String(is.action?.name ?? id), context, surface.id, id);
      });
      return made;
    },
    TextField: (surface, is, base) => {
      const kind = is.textFieldType ?? is.type;
      const made = make("label");
      const field = make(kind === "longText" ? "textarea" : "input") as HTMLInputElement;
      if (field.tagName === "INPUT") field.type = INPUTS[kind] ?? "text";
      keep(() => field === document.activeElement || (field.value = text(surface, is.text, base)));
      bind(surface, field, is.text?.path, base, () => (field.type === "number" && field.value !== "" ? Number(field.value) : field.value));
      made.append(make("span", "", text(surface, is.label, base)), field);
      return made;
    },
    CheckBox: (surface, is, base) => {
      const made = make("label", "check");
      const field = make("input") as HTMLInputElement;
      field.type = "checkbox";
      keep(() => (field.checked = value(surface, is.value, base) === true));
      bind(surface, field, is.value?.path, base, () => field.checked);
      made.append(field, make("span", "", text(surface, is.label, base)));
      return made;
    },
  };

  const keep = (show: () => unknown): void => {
    show();
    fresh.push(show);
  };

  /** What the person enters goes into the data model, and to whatever else shows it. */
  const bind = (surface: Surface, field: HTMLInputElement, path: string | undefined, base: string, read: () => Json): void => {
    if (typeof path !== "string") return;
    const at = whole(path, base);
    field.name = `${surface.id} ${at}`;
    field.addEventListener("input", () => {
      put(surface.data, at, read());
      for (const one of fresh) one();
    });
  };

  const flow = (kind: string, surface: Surface, is: Json, base: string, depth: number): HTMLElement => {
    const made = make("div", kind);
    made.style.justifyContent = SPREAD[is.distribution] ?? "";
    made.style.alignItems = ALIGN[is.alignment] ?? "";
    made.append(...children(surface, is.children, base, depth));
    return made;
  };

  const one = (surface: Surface, id: string, base: string, depth: number): HTMLElement => {
    const known = surface.components.get(id);
    const [kind, is] = Object.entries<Json>(known?.component ?? {})[0] ?? [];
    let made: HTMLElement;
    if (!kind || ++numbers > 5000 || depth > 40) made = make("div", "unknown", known ? `too much to show at “${id}”` : `“${id}” is not there yet`);
    else if (!Object.hasOwn(KINDS, kind)) made = make("div", "unknown", `This canvas cannot show “${kind}”.`);
    else made = KINDS[kind](surface, is ?? {}, base, depth + 1, id);
    made.dataset.component = id;
    if (known?.weight) made.classList.add("grow");
    return made;
  };

  /** All of it anew; the field somebody writes in stays as it is. */
  const redraw = (): void => {
    const field = document.activeElement as HTMLInputElement | null;
    const [name, text, start, end] = [field?.name, field?.value, field?.selectionStart, field?.selectionEnd];
    numbers = 0;
    fresh = [];
    const made = [...surfaces.values()].filter((surface) => surface.root).map((surface) => one(surface, surface.root, "", 0));
    place.replaceChildren(...(made.length ? made : [make("p", "empty", "Nothing to show yet")]));
    const again = name ? place.querySelector<HTMLInputElement>(`[name="${CSS.escape(name)}"]`) : null;
    if (!again || again === field) return;
    if (again.type !== "checkbox" && text !== undefined) again.value = text;
    again.focus();
    if (start !== null && start !== undefined && /^(text|password)$/.test(again.type)) again.setSelectionRange(start, end ?? start);
  };

  const take = (message: Json): void => {
    const [kind, body] = Object.entries<Json>(message)[0] ?? [];
    if (!body?.surfaceId) return;
    if (kind === "deleteSurface") return void surfaces.delete(body.surfaceId);
    const surface = surfaces.get(body.surfaceId) ?? new Surface(body.surfaceId);
    surfaces.set(surface.id, surface);
    if (kind === "surfaceUpdate") for (const row of body.components) surface.components.set(row.id, row);
    else if (kind === "beginRendering") surface.root = body.root;
    else if (kind === "dataModelUpdate") {
      const made = contents(body.contents);
      const at = steps(body.path ?? "");
      if (!at.length) Object.assign(surface.data, made);
      else put(surface.data, at.join("/"), { ...(look(surface.data, at.join("/")) ?? {}), ...made });
    }
  };

  const push = (messages: Json[]): void => {
    for (const message of messages) take(message);
    redraw();
  };
  push(first);
  return push;
}
