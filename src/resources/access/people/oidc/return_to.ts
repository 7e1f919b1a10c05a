const BASE = "http://this.invalid";
const LONGEST = 1_000;

/** A path of this server; `/` for everything else. A browser reads `//host` and `/\host` as another server. */
export function localPath(text: string | undefined): string {
  if (text === undefined || text.length > LONGEST || !/^\/[\x21-\x5b\x5d-\x7e]*$/.test(text)) return "/";
  if (!URL.canParse(text, BASE)) return "/";
  const { origin, pathname, search, hash } = new URL(text, BASE);
  return origin === BASE && !pathname.startsWith("//") ? pathname + search + hash : "/";
}
