/** The npm packages that a list of files comes from, with what bun.lock says of them. */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";

export type NpmPackage = {
  name: string;
  version: string;
  license: string;
  integrity: string;
  /** Versions of the libraries inside a package of compiled code, where it states them. */
  versions: Readonly<Record<string, string>>;
  folder: string;
};

export const npmPurl = (name: string, version: string) => `pkg:npm/${name.replace("@", "%40")}@${version}`;
export const githubPurl = (repository: string, version: string) => `pkg:github/${repository}@${version}`;

/** `files` may be relative to `root`. Files of the product itself have no package. */
export function packagesOf(root: string, files: readonly string[]): NpmPackage[] {
  const locked = integrities(readFileSync(join(root, "bun.lock"), "utf8"));
  const folders = new Map<string, string | undefined>();
  const found = new Map<string, NpmPackage>();
  for (const file of files) {
    const folder = packageFolder(root, dirname(resolve(root, file)), folders);
    if (folder === undefined) continue;
    const each = readPackage(folder, locked);
    found.set(`${each.name}@${each.version}`, each);
  }
  return [...found.values()];
}

type Manifest = { name?: string; version?: string; license?: string | { type: string } };
const manifestOf = (folder: string): Manifest => JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));

/** The nearest folder with a named package.json: some packages have one without a name further inside. */
function packageFolder(root: string, at: string, known: Map<string, string | undefined>): string | undefined {
  if (known.has(at)) return known.get(at);
  const isPackage = () => {
    if (!existsSync(join(at, "package.json"))) return false;
    const { name, version } = manifestOf(at);
    return name !== undefined && version !== undefined;
  };
  const isOutside = at === root || at === "/";
  const folder = isOutside ? undefined : isPackage() ? at : packageFolder(root, dirname(at), known);
  known.set(at, folder);
  return folder;
}

function readPackage(folder: string, locked: ReadonlyMap<string, string>): NpmPackage {
  const { name = "", version = "", license } = manifestOf(folder);
  const integrity = locked.get(`${name}@${version}`);
  const words = typeof license === "string" ? license : license?.type;
  if (integrity === undefined) throw new Error(`bun.lock has no hash of ${name}@${version}, which the build contains`);
  if (words === undefined) throw new Error(`${name}@${version} names no license; look for one and pin another version`);
  const parts = join(folder, "versions.json");
  const versions = existsSync(parts) ? JSON.parse(readFileSync(parts, "utf8")) : {};
  return { name, version, license: words, integrity, versions, folder };
}

/** `NAME@VERSION` → `sha512-…`. A package has one line in bun.lock. */
function integrities(lock: string): Map<string, string> {
  const rows = lock.matchAll(/^ +"[^"]+": \["([^"]+)",.*"(sha512-[^"]+)"\],?$/gm);
  return new Map([...rows].map(([, spec = "", integrity = ""]) => [spec, integrity]));
}
