// What is written on a page and not saved: nobody leaves it, or closes the window, without being asked.
import { store } from "./store";
import { sure } from "./sure";
import { tr } from "./words";

/** Ask before the page in view is left, as long as `held` says so. What is returned ends that. */
export function guard(held: () => boolean): () => void {
  const unload = (event: Event) => held() && event.preventDefault();
  store.guard = () => !held() || leave();
  addEventListener("beforeunload", unload);
  return () => {
    store.guard = () => true;
    removeEventListener("beforeunload", unload);
  };
}

export const leave = (): Promise<boolean> => sure(tr`Leave without saving?`, tr`Leave`);
