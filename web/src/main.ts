// The first thing that runs: learn the language, then begin. What is drawn finds its words there already.
import { learn } from "./words";

void learn().then(() => import("./start"));
