// A question before something is done: in the page's own look and language, with what will be done on its button.
import { html, render } from "lit";
import { tr } from "./words";

/** Whether the person wants it; closing the question, or Escape, is no. */
export function sure(question: string, yes: string, harm = true): Promise<boolean> {
  const place = document.body.appendChild(document.createElement("div"));
  return new Promise((done) => {
    const dialog = () => place.querySelector("dialog")!;
    const ended = () => {
      done(dialog().returnValue === "yes");
      place.remove();
    };
    render(html`<dialog class="edit sure" role="alertdialog" aria-labelledby="sure" @close=${ended} @click=${(e: Event) => e.target === e.currentTarget && dialog().close()}>
      <form method="dialog"><p id="sure">${question}</p>
        <div class="actions"><button type="submit" class="plain" value="no" autofocus>${tr`Cancel`}</button><button type="submit" class=${harm ? "danger" : "primary"} value="yes">${yes}</button></div></form></dialog>`, place);
    dialog().showModal();
  });
}
