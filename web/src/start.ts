// The page itself: take the token out of the address, choose the colours, connect.
import { tokenInAddress } from "./identity";
import { SEAM } from "./place";
import { theme } from "./sidebar";
import { store } from "./store";
import { live } from "./away";
import { wanted } from "./firstrun";
import "./app";

theme();
if (SEAM) for (const name of ["--accent", "--accent-strong"]) document.documentElement.style.setProperty(name, SEAM);
store.client.token = tokenInAddress();
store.begin = wanted;
store.route();
void store.restore();
store.client.connect();
live();
addEventListener("hashchange", () => { // somebody opened the link with the token in this very tab
  const token = tokenInAddress();
  if (!token) return;
  store.client.token = token;
  store.client.connect();
});

// For people who script the page, and for its tests: the line to the gateway.
(window as any).palinurus = store.client;
