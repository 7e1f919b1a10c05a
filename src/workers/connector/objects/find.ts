import { SourceError } from "../types.ts";
import { byBytes, globMatcher, isGlob, literalOf } from "./glob.ts";
import { patiently } from "./reader.ts";
import type { Store, StoredObject } from "./store.ts";

const MOST_OBJECTS = 100_000;
/** Of a thousand keys each, wanted or not: a store that goes round in circles must not be followed for ever. */
const MOST_PAGES = 10_000;

/**
 * The objects that a path means, in the order of their keys: the one of that name, else all whose keys begin with it
 * or match its pattern. Listed once, before anything is read: what is added meanwhile is not seen.
 */
export async function findObjects(store: Store, path: string, signal: AbortSignal): Promise<StoredObject[]> {
  const pattern = isGlob(path);
  if (path !== "" && !path.endsWith("/")) {
    const exact = await patiently(signal, () => store.stat(path, signal));
    if (exact) return [exact];
  }
  const beginning = pattern ? literalOf(path) : path;
  const matches = pattern ? globMatcher(path) : () => true;
  const found: StoredObject[] = [];
  let pages = 0;
  for await (const page of store.list(beginning, signal)) {
    for (const object of page) if (isFile(object, beginning) && matches(object.key)) found.push(object);
    if (++pages > MOST_PAGES)
      throw new SourceError(
        "invalid_source",
        `${store.prefix}${beginning} lists more than ${MOST_PAGES} pages: choose a narrower prefix`,
        "/source_uri",
      );
    if (found.length > MOST_OBJECTS)
      throw new SourceError(
        "invalid_source",
        `${store.prefix}${path} has more than ${MOST_OBJECTS} objects: choose a narrower prefix, or fewer and larger objects`,
        "/source_uri",
      );
  }
  if (found.length === 0)
    throw new SourceError("not_found", `There is no object at or under ${store.prefix}${path}`, "/source_uri");
  return found.sort((a, b) => byBytes(a.key, b.key));
}

/** Not the marker of a folder, and nothing that Spark and Hive hide: `_SUCCESS`, `_temporary/…`, `.part.crc`. */
function isFile({ key, bytes }: StoredObject, beginning: string): boolean {
  if (key.endsWith("/") && bytes === 0) return false;
  const folder = beginning.slice(0, beginning.lastIndexOf("/") + 1);
  return !key
    .slice(folder.length)
    .split("/")
    .some((part) => part.startsWith("_") || part.startsWith("."));
}
