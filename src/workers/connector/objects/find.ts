import { SourceError } from "../types.ts";
import { byBytes, globMatcher, isGlob, literalOf } from "./glob.ts";
import { patiently } from "./reader.ts";
import type { Store, StoredObject } from "./store.ts";

const MOST_OBJECTS = 100_000;
/** Pages of a thousand keys each: a store that lists endlessly must not be followed for ever. */
const MOST_PAGES = 10_000;

/**
 * Returns the objects of a path in the order of their keys: the one with that name, otherwise all with that prefix or
 * pattern. Objects are listed once, before reading: later ones are not seen.
 */
export async function findObjects(store: Store, path: string, signal: AbortSignal): Promise<StoredObject[]> {
  const pattern = isGlob(path);
  if (path !== "" && !path.endsWith("/")) {
    const exact = await patiently(signal, () => store.stat(path, signal));
    if (exact) return [exact];
  }
  const beginning = pattern ? literalOf(path) : path;
  const matches = pattern ? globMatcher(path) : () => true;
  const objects: StoredObject[] = [];
  let pages = 0;
  for await (const page of store.list(beginning, signal)) {
    for (const object of page) if (isFile(object, beginning) && matches(object.key)) objects.push(object);
    if (++pages > MOST_PAGES)
      throw new SourceError(
        "invalid_source",
        `${store.prefix}${beginning} lists more than ${MOST_PAGES} pages. Choose a narrower prefix`,
        "/source_uri",
      );
    if (objects.length > MOST_OBJECTS)
      throw new SourceError(
        "invalid_source",
        `${store.prefix}${path} has more than ${MOST_OBJECTS} objects. Choose a narrower prefix, or use fewer and larger objects`,
        "/source_uri",
      );
  }
  if (objects.length === 0)
    throw new SourceError("not_found", `There is no object at or under ${store.prefix}${path}`, "/source_uri");
  return objects.sort((a, b) => byBytes(a.key, b.key));
}

/** False for folder markers and for files that Spark and Hive hide: `_SUCCESS`, `_temporary/…`, `.part.crc`. */
function isFile({ key, bytes }: StoredObject, beginning: string): boolean {
  if (key.endsWith("/") && bytes === 0) return false;
  const folder = beginning.slice(0, beginning.lastIndexOf("/") + 1);
  return !key
    .slice(folder.length)
    .split("/")
    .some((part) => part.startsWith("_") || part.startsWith("."));
}
