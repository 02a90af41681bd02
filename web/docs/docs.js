// The search: loads its words when somebody first types. Every word must be there; a title counts more than the text.
const box = document.querySelector("input[type=search]");
const up = document.currentScript.dataset.up;
const list = document.createElement("ol");
list.id = "found";
list.hidden = true;
box.after(list);
box.disabled = false;
let rows;

async function look() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  rows ??= fetch(`${up}search.json`).then((answer) => answer.json());
  const all = await rows;
  const found = [];
  for (const [address, page, part, text] of words.length ? all : []) {
    const title = `${page} ${part}`.toLowerCase();
    const body = text.toLowerCase();
    if (!words.every((word) => title.includes(word) || body.includes(word))) continue;
    const score = words.reduce((sum, word) => sum + (title.includes(word) ? 10 : 0) + body.split(word).length - 1, 0);
    found.push({ address, page, part, text, score, at: body.indexOf(words[0]) });
  }
  found.sort((a, b) => b.score - a.score);
  list.replaceChildren(
    ...found.slice(0, 12).map(({ address, page, part, text, at }) => {
      const row = document.createElement("li");
      const link = document.createElement("a");
      link.href = up + address;
      link.textContent = part && part !== page ? `${page}: ${part}` : page;
      const some = document.createElement("small");
      some.textContent = text.slice(Math.max(0, at - 40), at + 120);
      row.append(link, some);
      return row;
    }),
  );
  list.hidden = !words.length;
  if (words.length && !found.length) list.textContent = "nothing found";
}

box.addEventListener("input", look);
box.addEventListener("keydown", (event) => {
  if (event.key === "Escape") (box.value = ""), look();
  if (event.key === "Enter") list.querySelector("a")?.click();
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== box) event.preventDefault(), box.focus();
});
