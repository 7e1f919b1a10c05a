/**
 * Content credentials: the binding of the newest manifest to the file's bytes, its signature, and what the newest
 * manifest that names a source type claims: a program that only opens a file names none. Not covered: timestamps of
 * authorities, revoked certificates, manifests stored elsewhere.
 */
import type { X509Certificate } from "node:crypto";

import type { ImageFormat } from "../../../lib/detection/sniff.ts";
import { jpegSegments, latin, pngChunks, riffChunks, viewOf } from "../containers.ts";
import { asList, type Cbor, isMap, readCbor } from "./cbor.ts";
import { type Link, linksOf } from "./ingredients.ts";
import { type Box, readBoxes } from "./jumbf.ts";
import { ALGORITHMS, checkSignature, type Signature } from "./signature.ts";

export type Credentials = {
  present: boolean;
  hash_valid: boolean | null;
  claim_generator: string | null;
  digital_source_type: string | null;
  /** The program that made the file, by the manifest that names the source type. */
  generator: string | null;
  /** True if the newest manifest and the one that names the source type have valid signatures, and the newest leads to the other. */
  source_signed: boolean;
  manifests: number;
  signature: Signature | null;
};
/** The lab's trust list, and the time at which certificates must be valid. */
export type Trust = { certificates: readonly X509Certificate[] | null; nowMs: number };

const APP11 = "eb";
const MAX_STORE_BYTES = 8 << 20;
const MAX_TEXT = 200;
const MAX_MANIFESTS = 50;

/** Returns null if the file has none. */
export function readCredentials(bytes: Uint8Array, format: ImageFormat, trust: Trust): Credentials | null {
  const store = findStore(bytes, format);
  if (!store || store.length === 0) return null;
  const nothing = { hash_valid: null, claim_generator: null, digital_source_type: null, signature: null };
  const unreadable = { present: true, ...nothing, generator: null, source_signed: false, manifests: 0 };
  const manifests = readBoxes(store)[0]?.children ?? [];
  try {
    const [newest, ...earlier] = manifests.slice(-MAX_MANIFESTS).reverse(); // the newest manifest is the last
    if (!newest) return unreadable;
    const { claim, assertions } = partsOf(newest);
    const signature = checkSignature(newest, claim, assertions, trust);
    const source = sourceOf(newest) ?? earlier.map(readable(sourceOf)).find((found) => found !== null) ?? null;
    const link = source ? linksOf(newest, manifests).get(source.manifest) : undefined;
    return {
      present: true,
      hash_valid: checkHash(bytes, assertions, isMap(claim) ? text(claim["alg"]) : null),
      claim_generator: generatorOf(claim),
      digital_source_type: source && typeIn(source.type, link),
      generator: source?.generator ?? null,
      source_signed:
        source !== null &&
        link !== undefined &&
        signature?.valid === true &&
        (source.manifest === newest || isSigned(source, trust)),
      manifests: manifests.length,
      signature,
    };
  } catch {
    return { ...unreadable, manifests: manifests.length }; // a manifest with invalid CBOR is present, but has no content
  }
}

type Source = { manifest: Box; type: string; generator: string | null };

/** An earlier manifest that cannot be read says nothing. */
const readable =
  <T>(read: (manifest: Box) => T | null) =>
  (manifest: Box): T | null => {
    try {
      return read(manifest);
    } catch {
      return null;
    }
  };

function partsOf(manifest: Box): { claim: Cbor; assertions: Box[] } {
  return {
    claim: contentOf(manifest.children.find(({ label }) => /^c2pa\.claim(\.v\d+)?$/.test(label))),
    assertions: manifest.children.find(({ label }) => label === "c2pa.assertions")?.children ?? [],
  };
}

function sourceOf(manifest: Box): Source | null {
  const { claim, assertions } = partsOf(manifest);
  const action = sourceAction(assertions);
  return action && { manifest, type: action.type, generator: action.agent ?? generatorOf(claim) };
}

/** A generated part does not make the whole file generated. */
const typeIn = (type: string, link: Link | undefined) =>
  link === "part" && type === "trainedAlgorithmicMedia" ? "compositeWithTrainedAlgorithmicMedia" : type;

function isSigned({ manifest }: Source, trust: Trust): boolean {
  const { claim, assertions } = partsOf(manifest);
  return checkSignature(manifest, claim, assertions, trust)?.valid === true;
}

function findStore(bytes: Uint8Array, format: ImageFormat): Uint8Array | null {
  if (format === "jpeg") return fromJpeg(bytes);
  const [chunks, name] = format === "png" ? [pngChunks, "caBX"] : [riffChunks, "C2PA"];
  if (format === "gif") return null;
  for (const { type, body } of chunks(bytes)) if (type === name) return body;
  return null;
}

/** Segments of 64 KiB: "JP", the box's instance, a packet number, and the box's header again in each. */
function fromJpeg(bytes: Uint8Array): Uint8Array | null {
  const HEAD = 8;
  const packets = new Map<number, { number: number; body: Uint8Array }[]>();
  let total = 0;
  for (const { type, body } of jpegSegments(bytes)) {
    if (type !== APP11 || body.length < HEAD + 8 || latin(body.subarray(0, 2)) !== "JP") continue;
    if (latin(body.subarray(HEAD + 4, HEAD + 8)) !== "jumb") continue;
    const view = viewOf(body);
    const instance = view.getUint16(2);
    const parts = packets.get(instance) ?? [];
    parts.push({ number: view.getUint32(4), body });
    packets.set(instance, parts);
    total += body.length;
    if (total > MAX_STORE_BYTES) return null;
  }
  for (const parts of packets.values()) {
    parts.sort((a, b) => a.number - b.number);
    const store = Buffer.concat(parts.map(({ body }, i) => body.subarray(i === 0 ? HEAD : HEAD + 8)));
    if (readBoxes(store)[0]?.label === "c2pa") return store;
  }
  return null;
}

function contentOf(box: Box | undefined): Cbor {
  const content = box?.content[0];
  if (content?.type === "cbor") return readCbor(content.body);
  if (content?.type === "json") return JSON.parse(new TextDecoder().decode(content.body)) as Cbor;
  return null;
}

const text = (value: Cbor | undefined) => (typeof value === "string" && value !== "" ? value.slice(0, MAX_TEXT) : null);

function generatorOf(claim: Cbor): string | null {
  if (!isMap(claim)) return null;
  const described = claim["claim_generator_info"];
  const first = Array.isArray(described) ? described[0] : described; // the first version of claims has a list
  if (isMap(first) && text(first["name"]))
    return [text(first["name"]), text(first["version"])].filter((part) => part !== null).join(" ");
  return text(claim["claim_generator"]);
}

/** The first action with a source type, and the program that did it. */
function sourceAction(assertions: readonly Box[]): { type: string; agent: string | null } | null {
  for (const box of assertions) {
    if (!/^c2pa\.actions(\.v\d+)?(__\d+)?$/.test(box.label)) continue;
    const content = contentOf(box);
    for (const action of asList(isMap(content) ? content["actions"] : null)) {
      if (!isMap(action)) continue;
      const type = text(action["digitalSourceType"]);
      const by = action["softwareAgent"];
      const agent = isMap(by) ? text(by["name"]) : text(by);
      if (type) return { type: type.slice(type.lastIndexOf("/") + 1), agent }; // a name in IPTC's or C2PA's vocabulary
    }
  }
  return null;
}

/** The binding of a manifest to its file: a hash over all bytes except the excluded ranges. */
function checkHash(bytes: Uint8Array, assertions: readonly Box[], claimed: string | null): boolean | null {
  const binding = contentOf(assertions.find(({ label }) => /^c2pa\.hash\.data(\.v\d+)?(__\d+)?$/.test(label)));
  if (!isMap(binding) || !(binding["hash"] instanceof Uint8Array)) return null;
  const algorithm = ALGORITHMS[(text(binding["alg"]) ?? claimed ?? "") as keyof typeof ALGORITHMS];
  if (!algorithm) return null;
  const hasher = new Bun.CryptoHasher(algorithm);
  let at = 0;
  const exclusions = asList(binding["exclusions"]).map((range) =>
    isMap(range) ? [Number(range["start"]), Number(range["length"])] : [Number.NaN, Number.NaN],
  ) as [number, number][];
  for (const [start, length] of exclusions.sort((a, b) => a[0] - b[0])) {
    if (!(start >= at && length >= 0 && start + length <= bytes.length)) return false;
    hasher.update(bytes.subarray(at, start));
    at = start + length;
  }
  hasher.update(bytes.subarray(at));
  return Buffer.from(hasher.digest()).equals(binding["hash"]);
}
