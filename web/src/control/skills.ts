// Skills: which there are, which are used, and why others are not.
import { empty, html, nothing, Page, store, type Payload } from "../base";
import { rich, tr } from "../words";

class Skills extends Page {
  heading = tr`Skills`;
  about = tr`What the agent has been taught to do.`;

  protected fetch(): Promise<Payload> {
    return this.ask("skills.status");
  }

  private async toggle(skill: Payload): Promise<void> {
    const done = await store.ask("skills.update", { skillKey: skill.skillKey, enabled: skill.disabled });
    if (done) store.toast(`${skill.name} ${skill.disabled ? tr`on` : tr`off`}`);
    await this.load();
  }

  protected body(d: Payload): unknown {
    const skills: Payload[] = d.skills ?? [];
    if (!skills.length) return empty(tr`No skills yet`, html`${rich`Put a folder with a ${html`<code>SKILL.md</code>`} into ${html`<code>${d.workspaceDir}/skills</code>`}.`}`);
    return html`<ul class="rows big">${skills.map((skill) => html`<li><span class="glyph">${skill.emoji ?? "✦"}</span><div class="grow"><b>${skill.name}</b> <span class="tag ${skill.eligible ? "good" : ""}">${skill.disabled ? tr`off` : skill.eligible ? tr`ready` : tr`waiting`}</span><p>${skill.description}</p>
      ${skill.reasons?.length ? html`<p class="warn">${skill.reasons.join("; ")}</p>` : nothing}<small class="dim" title=${skill.filePath}>${skill.source} · ${String(skill.filePath).split("/").slice(-2).join("/")}</small></div>
      <label class="switch"><input type="checkbox" role="switch" aria-label=${tr`Use ${skill.name}`} .checked=${!skill.disabled} @change=${() => void this.toggle(skill)}><i></i></label></li>`)}</ul>
      ${(d.invalid ?? []).map((one: Payload) => html`<p class="warn">${one.filePath}: ${one.reason}</p>`)}`;
  }
}
customElements.define("pal-skills", Skills);
