/** Bun comes from npm, and only with the bytes that scripts/lib.sh names. No registry is asked: npm is a fake here. */
import { afterEach, beforeEach, expect, test } from "bun:test";
import { createHash } from "node:crypto";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

let dir: string;
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "verk-lib-"));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const script = (path: string, text: string) => {
  writeFileSync(path, `#!/bin/sh\n${text}\n`);
  chmodSync(path, 0o755);
};

/** A checkout with scripts/lib.sh that expects `integrity` of both packages, and a fake npm that packs a fake Bun. */
function checkout(integrity: (bytes: Uint8Array) => string) {
  mkdirSync(join(dir, "package/bin"), { recursive: true });
  script(join(dir, "package/bin/bun"), "echo 1.4.4");
  const packed = join(dir, "fake.tgz");
  const tar = Bun.spawnSync(["tar", "-czf", packed, "-C", dir, "package"]);
  expect(tar.exitCode).toBe(0);
  mkdirSync(join(dir, "fake"));
  script(
    join(dir, "fake/npm"),
    `while [ "$1" != --pack-destination ]; do shift; done\ncp "${packed}" "$2/package.tgz"\n`,
  );
  const lib = readFileSync(join(import.meta.dir, "lib.sh"), "utf8");
  mkdirSync(join(dir, "scripts"));
  const pinned = lib.replaceAll(/echo sha512-\S+/g, `echo ${integrity(readFileSync(packed))}`);
  expect(pinned).not.toBe(lib);
  writeFileSync(join(dir, "scripts/lib.sh"), pinned);
}

function install() {
  const run = Bun.spawnSync(["bash", "-c", `. "${dir}/scripts/lib.sh"; install_bun`], {
    env: { ...process.env, PATH: `${join(dir, "fake")}:${process.env["PATH"]}` },
    stderr: "pipe",
  });
  return {
    code: run.exitCode,
    said: run.stderr.toString(),
    there: existsSync(join(dir, ".tools/bun/node_modules/.bin/bun")),
  };
}

const sha512 = (bytes: Uint8Array) => `sha512-${createHash("sha512").update(bytes).digest("base64")}`;

test("a Bun whose hash is the pinned one is installed", () => {
  checkout(sha512);
  expect(install()).toMatchObject({ code: 0, there: true });
});

test("a Bun with another hash is refused, and nothing of it stays", () => {
  checkout((bytes) => sha512(bytes).replace(/.{4}==$/, "AAAA=="));
  const { code, said, there } = install();
  expect({ code, there }).toEqual({ code: 1, there: false });
  expect(said).toContain("does not match the hash in scripts/lib.sh");
  expect(readdirSync(join(dir, ".tools/bun/node_modules/@oven"))).toEqual([]);
});

test("both architectures are pinned by a whole sha512", () => {
  const pins = [...readFileSync(join(import.meta.dir, "lib.sh"), "utf8").matchAll(/echo sha512-(\S+) ;;/g)];
  expect(pins.map(([, hash = ""]) => Buffer.from(hash, "base64").length)).toEqual([64, 64]);
});
