// What this browser keeps between visits: its key, and what was written and is not with the gateway yet.
const DB = "palinurus";
const SHELF = "kept";

const memory = new Map<string, unknown>(); // where IndexedDB is closed to us (private windows)

function open(): Promise<IDBDatabase> {
  return new Promise((done, fail) => {
    const asked = indexedDB.open(DB, 1);
    asked.onupgradeneeded = () => asked.result.createObjectStore(SHELF);
    asked.onsuccess = () => done(asked.result);
    asked.onerror = () => fail(asked.error);
  });
}

async function shelf<T>(mode: IDBTransactionMode, act: (store: IDBObjectStore) => IDBRequest<T>): Promise<T> {
  const db = await open();
  try {
    return await new Promise<T>((done, fail) => {
      const work = db.transaction(SHELF, mode);
      const asked = act(work.objectStore(SHELF));
      work.oncomplete = () => done(asked.result); // and not before: who leaves ends what is under way
      work.onabort = () => fail(work.error);
    });
  } finally {
    db.close();
  }
}

/** What is kept under a name. */
export async function get<T>(name: string): Promise<T | undefined> {
  try {
    return (await shelf("readonly", (store) => store.get(name))) as T | undefined;
  } catch {
    return memory.get(name) as T | undefined;
  }
}

export async function put(name: string, value: unknown): Promise<void> {
  memory.set(name, value);
  try {
    await shelf("readwrite", (store) => store.put(value, name));
  } catch {
    // the copy in memory serves until the window closes
  }
}

export async function drop(name: string): Promise<void> {
  memory.delete(name);
  try {
    await shelf("readwrite", (store) => store.delete(name));
  } catch {
    // it was in memory only
  }
}

/** Keep words at once: IndexedDB takes a moment, and who closes the window in it has written them. */
export function jot(name: string, value: unknown): void {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    // full or closed to us: what IndexedDB keeps has to do
  }
}

/** What was jotted down under names with this beginning. */
export const jotted = <T>(prefix: string): T[] => Object.keys(localStorage).filter((name) => name.startsWith(prefix)).map((name) => JSON.parse(localStorage.getItem(name)!));

/** All that is kept under names with this beginning. */
export async function list<T>(prefix: string): Promise<T[]> {
  const range = IDBKeyRange.bound(prefix, `${prefix}\uffff`);
  try {
    return (await shelf("readonly", (store) => store.getAll(range))) as T[];
  } catch {
    return [...memory].filter(([name]) => name.startsWith(prefix)).map(([, value]) => value as T);
  }
}
