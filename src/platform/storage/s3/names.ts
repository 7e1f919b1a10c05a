/**
 * Maps keys to names in a bucket. The names sort as the keys do, byte by byte, and no name is the directory of another
 * (`a!0` and `a/b!0`): servers that keep objects as files cannot hold `a` beside `a/b`.
 */
const LEAF = "!0";
const ESCAPES: Readonly<Record<string, string>> = { " ": "!1", "!": "!2" };
const CHARACTERS: Readonly<Record<string, string>> = { "!1": " ", "!2": "!" };

export const escapePrefix = (prefix: string) => prefix.replaceAll(/[ !]/g, (char) => ESCAPES[char]!);
export const escapeKey = (key: string) => escapePrefix(key) + LEAF;
/** Undefined when we did not write it. */
export function unescapeKey(name: string): string | undefined {
  if (!name.endsWith(LEAF)) return undefined;
  return name.slice(0, -LEAF.length).replaceAll(/![12]/g, (escaped) => CHARACTERS[escaped]!);
}

export type Section = { prefix: string; after: string };

/**
 * The names below `prefix` that sort after `after`, as consecutive lists in each of which the place to start has no
 * slash behind the list's prefix: MinIO of 2023 forgets names when it has one. `0` is the character after the slash.
 */
export function sectionsAfter(prefix: string, after: string): Section[] {
  if (after === "" || (!after.startsWith(prefix) && isBefore(after, prefix))) return [{ prefix, after: "" }];
  if (!after.startsWith(prefix)) return [];
  const sections: Section[] = [];
  let start = after;
  for (let slash = after.lastIndexOf("/"); slash >= prefix.length; slash = after.lastIndexOf("/", slash - 1)) {
    sections.push({ prefix: after.slice(0, slash + 1), after: start });
    start = `${after.slice(0, slash)}0`;
    if (slash === 0) break;
  }
  return [...sections, { prefix, after: start }];
}

const isBefore = (a: string, b: string) => Buffer.compare(Buffer.from(a), Buffer.from(b)) < 0;

const hex = () => crypto.randomUUID().replaceAll("-", "");

/** Content has a name of its own, known before its first byte. */
export const newObjectName = () => hex();

export type Staging = { parts: number | undefined; expiresAt: number };

/** The name says what it is, so that nothing about it need be remembered: one piece or how many parts, until when. */
export function newStaging({ parts, expiresAt }: Staging): string {
  const kind = parts === undefined ? "put" : `parts${parts}`;
  return `${kind}-${expiresAt.toString(36)}-${hex()}`;
}

export function readStaging(name: string): Staging | undefined {
  const match = /^(?:put|parts(\d{1,5}))-([0-9a-z]{1,10})-[0-9a-f]{32}$/.exec(name);
  if (!match) return undefined;
  return { parts: match[1] === undefined ? undefined : Number(match[1]), expiresAt: Number.parseInt(match[2]!, 36) };
}
