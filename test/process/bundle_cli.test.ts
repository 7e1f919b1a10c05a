import { afterAll, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { stampText } from "../../src/platform/updates/stamp.ts";
import { runVerk } from "../cli.ts";
import { tempDir } from "../harness.ts";

const root = tempDir();
afterAll(() => rmSync(root, { recursive: true, force: true }));
const verk = (...args: string[]) => runVerk(args, { cwd: root });

const stamp = { version: "9.0.0", database_version: 99, commit: "abc", built_at: "2026-11-17T00:00:00.000Z" };
for (const target of ["linux-one", "linux-two"])
  writeFileSync(join(root, target), `${target} ${stampText({ ...stamp, target })}`);
writeFileSync(join(root, "guide.md"), "guide");

test("a bundle is made, verified with its key and extracted; a changed or foreign one leaves nothing", async () => {
  expect(await verk("bundle", "key", "release.key")).toMatchObject({
    code: 0,
    err: expect.stringContaining("no passphrase"),
  });
  expect(statSync(join(root, "release.key")).mode & 0o777).toBe(0o600);
  expect((await verk("bundle", "key", "release.key")).err).toContain("exists");

  const files = ["--executable", "linux-one", "--executable", "linux-two", "--add", "guide.md"];
  const made = await verk("bundle", "create", ...files, "--key", "release.key", "--json");
  expect(made).toMatchObject({ code: 0 });
  expect(made.json()).toMatchObject({ version: "9.0.0", database_version: 99 });

  const verified = await verk("bundle", "verify", "verk.bundle", "--key", "release.pub");
  expect(verified).toMatchObject({ code: 0, out: expect.stringContaining("verk-linux-two") });
  expect(await verk("bundle", "verify", "verk.bundle")).toMatchObject({
    code: 2,
    err: expect.stringContaining("no key"),
  });

  expect((await verk("bundle", "extract", "verk.bundle", "out", "--key", "release.pub")).code).toBe(0);
  expect(readdirSync(join(root, "out")).sort()).toEqual(["guide.md", "verk-linux-one", "verk-linux-two"]);

  await verk("bundle", "key", "foreign.key");
  const foreign = await verk("bundle", "extract", "verk.bundle", "not-made", "--key", "foreign.pub");
  expect(foreign).toMatchObject({ code: 5, err: expect.stringContaining("not trusted here") });
  const bytes = readFileSync(join(root, "verk.bundle"));
  bytes[bytes.length - 2000] = (bytes[bytes.length - 2000] ?? 0) ^ 1;
  writeFileSync(join(root, "verk.bundle"), bytes);
  const changed = await verk("bundle", "extract", "verk.bundle", "not-made", "--key", "release.pub");
  expect(changed).toMatchObject({ code: 5, err: expect.stringContaining("does not match the signed manifest") });
  expect(existsSync(join(root, "not-made"))).toBe(false);
});

test("keys of the configuration are trusted, and a wrong one is named", async () => {
  const made = (await verk("bundle", "key", "lab.key", "--json")).json() as { public_key: string };
  await verk("bundle", "create", "--executable", "linux-one", "--key", "lab.key", "--out", "lab.bundle");
  writeFileSync(join(root, "verk.toml"), `[updates]\ntrusted_keys = ["${made.public_key}"]\n`);
  expect(await verk("bundle", "verify", "lab.bundle", "--config", "verk.toml")).toMatchObject({ code: 0 });
  writeFileSync(join(root, "verk.toml"), '[updates]\ntrusted_keys = ["RWnot a key"]\n');
  expect(await verk("bundle", "verify", "lab.bundle", "--config", "verk.toml")).toMatchObject({
    code: 2,
    err: expect.stringContaining("updates.trusted_keys"),
  });
});
