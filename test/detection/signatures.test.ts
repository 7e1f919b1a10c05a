// tier: all (networks of the detectors)
import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import sharp from "sharp";
import { DAY_MS } from "../../src/lib/units.ts";
import { readCredentials } from "../../src/workers/detector/origin/c2pa.ts";
import { readTrustList } from "../../src/workers/detector/origin/certificates.ts";
import { verifySignature } from "../../src/workers/detector/origin/cose.ts";
import { intoPng, superbox, type Value } from "./credentials_kit.ts";
import { Detector } from "./detector.ts";
import { FAKES, writeModels } from "./fake_models.ts";
import {
  coseOf,
  hasOpenssl,
  makeSigner,
  referenceTo,
  type Signer,
  signedManifest,
  signedStore,
  type Tampering,
} from "./signing_kit.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-signers-"));
const nowMs = Date.now() + DAY_MS;
const assertions = { "c2pa.actions": { actions: [{ action: "c2pa.created" }] }, "c2pa.thing": { name: "x" } };
let png: Buffer;
let signer: Signer;

beforeAll(async () => {
  png = await sharp({ create: { width: 9, height: 7, channels: 3, background: "#a40" } })
    .png()
    .toBuffer();
  if (hasOpenssl) signer = makeSigner(dir, { algorithm: -7 });
});
afterAll(() => rmSync(dir, { recursive: true }));

type Circumstances = { tampering?: Tampering; roots?: string | null; at?: number };
const check = (by: Signer, { tampering, roots = by.root, at = nowMs }: Circumstances = {}) =>
  readCredentials(intoPng(png, signedStore(by, assertions, tampering)), "png", {
    certificates: roots === null ? null : readTrustList(roots),
    nowMs: at,
  })?.signature;

describe.skipIf(!hasOpenssl)("signatures of content credentials", () => {
  test.each([
    ["ES256", -7],
    ["ES384", -35],
    ["PS256 with a key for PSS alone", -37],
    ["EdDSA", -8],
  ])("%s: signed, and trusted by the root", (_, algorithm) => {
    const own = algorithm === -7 ? signer : makeSigner(dir, { algorithm });
    const facts = { valid: true, trusted: true, signer: "The signer", problem: null };
    expect(check(own)).toEqual(facts);
    expect(check(own, { roots: null })).toEqual({ ...facts, trusted: null });
    expect(check(own, { tampering: { claim: true } })?.valid).toBe(false);
  });

  test.each([0, 23, 24, 255, 256, 65_535, 65_536])("a content of %d bytes is signed as a whole", (length) => {
    const content = Buffer.alloc(length, "x");
    const cose = coseOf(signer, content);
    expect(verifySignature(cose, content).valid).toBe(true);
    expect(verifySignature(cose, Buffer.concat([content, Buffer.from("x")])).valid).toBe(false);
  });

  test.each<[keyof Tampering, string]>([
    ["claim", "The signature does not fit the claim"],
    ["signature", "The signature does not fit the claim"],
    ["assertion", "The assertion c2pa.actions was changed"],
    ["extra", "The assertion c2pa.metadata is not part of the claim"],
  ])("a changed %s is not valid, and says nothing about trust", (part, problem) => {
    expect(check(signer, { tampering: { [part]: true } })).toEqual({
      valid: false,
      trusted: null,
      signer: "The signer",
      problem,
    });
  });

  test("a signature is valid and not trusted without a way to the trust list", () => {
    const other = makeSigner(mkdtempSync(join(dir, "other-")), { algorithm: -7 });
    expect(check(signer, { roots: other.root })).toMatchObject({
      valid: true,
      trusted: false,
      problem: "The chain of certificates does not lead to one in the trust list",
    });
    expect(check({ ...signer, chain: signer.chain.slice(0, 1) })?.trusted).toBe(false); // without the one between
  });

  test("a certificate outside its time is not trusted", () => {
    expect(check(signer, { at: nowMs + 40 * DAY_MS })?.problem).toBe("A certificate of the chain has expired");
    expect(check(signer, { at: nowMs - 40 * DAY_MS })?.problem).toBe("A certificate of the chain is not valid yet");
  });

  test("a certificate for another purpose, or that of an authority, does not sign content", () => {
    const make = (options: object) => makeSigner(mkdtempSync(join(dir, "purpose-")), { algorithm: -7, ...options });
    const problem = "The signer's certificate is not meant for signing content";
    expect(check(make({ purpose: "serverAuth" }))).toMatchObject({ trusted: false, problem });
    expect(check(make({ authority: true }))?.problem).toBe("The signer's certificate is that of an authority");
  });

  test("the key of another signer does not fit", () => {
    const other = makeSigner(mkdtempSync(join(dir, "key-")), { algorithm: -7 });
    expect(check({ ...signer, key: other.key })?.valid).toBe(false);
  });

  test("the detector reads the trust list in its sandbox, and says which list cannot be used", async () => {
    const trustList = join(dir, "trust.pem");
    await Bun.write(trustList, `roots of the lab\n${signer.root}`);
    const modelsDir = writeModels(join(dir, "models"), FAKES);
    const detector = new Detector({ modelsDir, trustList });
    const { scored } = await detector.score(intoPng(png, signedStore(signer, assertions)));
    expect(scored?.signals.c2pa?.signature).toMatchObject({ valid: true, trusted: true, signer: "The signer" });
    await detector.close();

    await Bun.write(trustList, "nothing");
    const broken = new Detector({ modelsDir, trustList });
    expect(broken.open()).rejects.toThrow("detect.trust_list cannot be used: the file has no certificate");
    await broken.open().catch(() => {});
    await broken.close();
  }, 60_000);

  test("an earlier manifest counts as signed only if the newest leads to it by its hash", () => {
    const source = "http://cv.iptc.org/newscodes/digitalsourcetype/trainedAlgorithmicMedia";
    const created = { "c2pa.actions": { actions: [{ action: "c2pa.created", digitalSourceType: source }] } };
    const first = signedManifest(signer, created, "urn:first");
    const read = (ingredient: Value, earlier = first, between: Buffer[] = []) => {
      const newest = signedManifest(signer, { ...assertions, "c2pa.ingredient": ingredient }, "urn:last");
      const file = intoPng(png, superbox("c2pa", earlier, ...between, newest));
      const found = readCredentials(file, "png", { certificates: readTrustList(signer.root), nowMs })!;
      return [found.source_signed, found.digital_source_type];
    };
    const reference = referenceTo(first, "urn:first");
    const changed = signedManifest(signer, created, "urn:first", { assertion: true });
    expect(read({ relationship: "parentOf", c2pa_manifest: reference })).toEqual([true, "trainedAlgorithmicMedia"]);
    expect(read({ relationship: "parentOf", activeManifest: reference })).toEqual([true, "trainedAlgorithmicMedia"]);
    expect(read({ relationship: "parentOf" })).toEqual([false, "trainedAlgorithmicMedia"]);
    expect(read({ relationship: "parentOf", c2pa_manifest: { ...reference, hash: Buffer.alloc(32) } })[0]).toBe(false);
    expect(read({ relationship: "parentOf", c2pa_manifest: reference }, changed)[0]).toBe(false);
    const own = referenceTo(changed, "urn:first");
    expect(read({ relationship: "parentOf", c2pa_manifest: own }, changed)[0]).toBe(false); // its own signature is broken
    const part = "compositeWithTrainedAlgorithmicMedia";
    expect(read({ relationship: "componentOf", c2pa_manifest: reference })).toEqual([true, part]);
    const middle = signedManifest(
      signer,
      { "c2pa.ingredient.v3": { relationship: "parentOf", activeManifest: reference } },
      "urn:middle",
    );
    const toMiddle = referenceTo(middle, "urn:middle");
    expect(read({ relationship: "parentOf", c2pa_manifest: toMiddle }, first, [middle])[0]).toBe(true);
    expect(read({ relationship: "componentOf", c2pa_manifest: toMiddle }, first, [middle])).toEqual([true, part]);
  });

  test("a broken signature never hides the claims", () => {
    const whole = intoPng(png, signedStore(signer, assertions));
    const from = whole.indexOf("c2pa.signature");
    for (let at = from + 15; at < whole.length - 60; at++) {
      const broken = whole.slice();
      broken[at]! ^= 0x15;
      const found = readCredentials(broken, "png", { certificates: readTrustList(signer.root), nowMs });
      if (found?.signature) expect(found.claim_generator).toBe("maker/1");
      expect(found?.signature?.trusted ?? null).not.toBe(true);
    }
  });
});

test("a trust list without certificates is refused", () => {
  expect(() => readTrustList("nothing")).toThrow("the file has no certificate");
});
