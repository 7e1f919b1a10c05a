/**
 * How an earlier manifest of a store belongs to the newest one: a chain of ingredients, each with the hash of the manifest it
 * names. Without it the manifest may be that of another file. `parent`: the file was made from that one. `part`: that one
 * was put into the file.
 */
import { type Cbor, isMap, readCbor } from "./cbor.ts";
import type { Box } from "./jumbf.ts";
import { ALGORITHMS } from "./signature.ts";

export type Link = "parent" | "part";
type Algorithm = keyof typeof ALGORITHMS;
type Ingredient = { label: string; hash: Uint8Array; algorithm: Algorithm; isParent: boolean };

/** Manifests that the newest one leads to; a parent of a part is a part. The newest is its own parent. */
export function linksOf(newest: Box, manifests: readonly Box[]): Map<Box, Link> {
  const links = new Map<Box, Link>([[newest, "parent"]]);
  const hashes = new Map<string, Buffer>(); // a store may name one manifest thousands of times
  const hasHash = (manifest: Box, { hash, algorithm }: Ingredient) => {
    const key = `${algorithm} ${manifests.indexOf(manifest)}`;
    const known = hashes.get(key) ?? new Bun.CryptoHasher(ALGORITHMS[algorithm]).update(manifest.body).digest();
    hashes.set(key, known);
    return known.equals(hash);
  };
  for (const [manifest, link] of links) // grows while it is read
    for (const ingredient of ingredientsOf(manifest)) {
      const named = manifests.find(({ label }) => label === ingredient.label);
      if (!named || named === newest || !hasHash(named, ingredient)) continue;
      const isParent = link === "parent" && ingredient.isParent;
      if (isParent || !links.has(named)) links.set(named, isParent ? "parent" : "part");
    }
  return links;
}

function ingredientsOf(manifest: Box): Ingredient[] {
  const assertions = manifest.children.find(({ label }) => label === "c2pa.assertions")?.children ?? [];
  return assertions.flatMap(({ label, content }) => {
    const body = content.find(({ type }) => type === "cbor")?.body;
    if (!body || !/^c2pa\.ingredient(\.v\d+)?(__\d+)?$/.test(label)) return [];
    const said = readable(body);
    const reference = isMap(said) ? (said["activeManifest"] ?? said["c2pa_manifest"]) : null;
    if (!isMap(said) || !isMap(reference)) return [];
    const { url, hash, alg = "sha256" } = reference;
    if (typeof url !== "string" || !(hash instanceof Uint8Array) || !Object.hasOwn(ALGORITHMS, String(alg))) return [];
    const isParent = said["relationship"] === "parentOf";
    return [{ label: url.slice(url.lastIndexOf("/") + 1), hash, algorithm: alg as Algorithm, isParent }];
  });
}

/** An ingredient that cannot be read leads nowhere. */
function readable(body: Uint8Array): Cbor {
  try {
    return readCbor(body);
  } catch {
    return null;
  }
}
