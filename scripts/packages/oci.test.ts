import { afterEach, beforeEach, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { packageWorld, run, type World } from "../../test/packages_kit.ts";
import { ociName, writeOci } from "./oci.ts";

let world: World;
let layout: string;
beforeEach(() => {
  world = packageWorld();
  layout = join(world.dir, "layout");
  mkdirSync(layout);
  writeFileSync(join(world.dir, "image.tar"), writeOci(world.release));
  expect(run(["tar", "-xf", join(world.dir, "image.tar"), "-C", layout])).toMatchObject({ code: 0, err: "" });
});
afterEach(() => rmSync(world.dir, { recursive: true, force: true }));

type Descriptor = { mediaType: string; digest: string; size: number };
const sha256 = (content: Uint8Array) => `sha256:${createHash("sha256").update(content).digest("hex")}`;
const json = (content: Uint8Array | string) => JSON.parse(content.toString());

/** The content that a descriptor names, with its size and digest checked. */
function blobOf({ digest, size }: Descriptor): Buffer {
  const content = readFileSync(join(layout, "blobs", digest.replace(":", "/")));
  expect([sha256(content), content.byteLength]).toEqual([digest, size]);
  return content;
}

test("the layout names one manifest, and every blob has the digest of its name", () => {
  expect(json(readFileSync(join(layout, "oci-layout")))).toEqual({ imageLayoutVersion: "1.0.0" });
  const index = json(readFileSync(join(layout, "index.json")));
  expect(index.manifests).toHaveLength(1);
  expect(index.manifests[0].platform).toEqual({ architecture: world.release.platform.debian, os: "linux" });
  const manifest = json(blobOf(index.manifests[0]));
  expect(manifest.config.mediaType).toBe("application/vnd.oci.image.config.v1+json");
  expect(manifest.layers.map(({ mediaType }: Descriptor) => mediaType)).toEqual([
    "application/vnd.oci.image.layer.v1.tar+gzip",
  ]);
  const config = json(blobOf(manifest.config));
  const layer = blobOf(manifest.layers[0]);
  expect(config.rootfs).toEqual({ type: "layers", diff_ids: [sha256(gunzipSync(layer))] });
  expect(config.config).toMatchObject({ Entrypoint: ["/usr/bin/verk"], Cmd: ["serve"], User: "65532:65532" });
  const names = readdirSync(join(layout, "blobs/sha256"));
  expect(names.sort()).toEqual(
    [index.manifests[0], manifest.config, manifest.layers[0]].map(({ digest }) => digest.slice(7)).sort(),
  );
});

test("the layer has the executable, the C library and a data directory that only its user reads", () => {
  const index = json(readFileSync(join(layout, "index.json")));
  const [layer] = json(blobOf(index.manifests[0])).layers;
  writeFileSync(join(world.dir, "layer.tar"), gunzipSync(blobOf(layer)));
  const list = run(["tar", "-tvf", join(world.dir, "layer.tar"), "--numeric-owner"]).out;
  for (const part of [/^-rwxr-xr-x 0\/0 .* usr\/bin\/verk$/m, /^drwx------ 65532\/65532 .* var\/lib\/verk\/$/m])
    expect(list).toMatch(part);
  for (const name of ["libc.so.6", "libresolv.so.2"]) expect(list).toContain(name); // sharp needs the second
  expect(list).toContain(world.release.platform.loader.slice(1));
});

test("the same release gives the same bytes", () => {
  expect(Buffer.from(writeOci(world.release)).equals(readFileSync(join(world.dir, "image.tar")))).toBe(true);
  expect(ociName(world.release)).toBe(`verk-1.2.3-${world.release.platform.name}.oci.tar`);
});
