// The whole conversation for paper: drawn once, without the list that keeps only what is visible.
import { html, render } from "lit";
import { drawn } from "./message";
import { title } from "./sidebar";
import { store } from "./store";
import { dated } from "./text";

/** Draw it, open the browser's print window, and take it away again. */
export async function printed(): Promise<void> {
  await store.list(); // its title may have come with the last answer
  const page = document.createElement("div");
  page.className = "paper";
  const row = store.sessions.find((one) => one.key === store.key) ?? { key: store.key };
  let day = "";
  render(html`<h1>${title(row)}</h1>${store.talk.all().map((item) => {
    const now = item.at ? dated(item.at) : day;
    const head = now !== day ? html`<h2 class="day">${now}</h2>` : "";
    day = now;
    return html`${head}<article class="row ${item.kind}">${drawn(item, () => {})}</article>`;
  })}`, page);
  document.body.append(page);
  document.body.classList.add("printing");
  await new Promise((done) => setTimeout(done, 300)); // formulas are drawn a moment later
  const done = () => {
    page.remove();
    document.body.classList.remove("printing");
  };
  addEventListener("afterprint", done, { once: true });
  window.print();
}
