/** Backups by a hostile author, who has the place of backups and the public key of the operator. */
import { afterAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { newId } from "../../src/lib/ids.ts";
import { refPathOf } from "../../src/platform/backup/invariants.ts";
import { sealKeys } from "../../src/platform/backup/key_seal.ts";
import { openRepository } from "../../src/platform/backup/repository.ts";
import { restoreBackup, verifyBackup } from "../../src/platform/backup/restore.ts";
import { openDirectory } from "../../src/platform/backup/target.ts";
import { sha256Bytes } from "../../src/platform/files.ts";
import { tempDir } from "../harness.ts";
import { openMigrated } from "../template_db.ts";

const dir = tempDir();
const { publicKey, privateKey } = generateKeyPairSync("x25519");
const recipient = publicKey.export({ type: "spki", format: "pem" }) as string;
const sealer = { recipient: privateKey.export({ type: "pkcs8", format: "pem" }) as string };
let count = 0;
afterAll(() => Bun.spawnSync(["rm", "-rf", dir]));

type Content = { path: string; bytes?: number; chunks: string[]; patches?: string[] };
type Attack = {
  files?: (database: Content, place: string) => unknown[];
  sql?: string;
  keys?: Record<string, string>;
  more?: object;
};

/** A whole backup of an empty server, changed by the attack. Its hash is right: the author wrote it. */
async function hostile({ files = (database) => [database], sql = "", keys, more = {} }: Attack) {
  const home = join(dir, String(++count));
  const place = join(home, "place");
  mkdirSync(join(place, "backups"), { recursive: true });
  const data = join(home, "data");
  mkdirSync(data);
  const db = openMigrated(data).$client;
  if (sql !== "") db.exec(sql);
  db.exec("PRAGMA wal_checkpoint(TRUNCATE)");
  db.close();
  const id = newId("bkp", Date.now());
  const database = store(place, await Bun.file(join(data, "verk.db")).bytes(), "verk.db");
  const sealed = keys ? await sealKeys(keys, { recipient }, id) : null;
  const about = { format: 1, id, created_at: new Date().toISOString(), version: "1.0.0", schema: 1 };
  const manifest = JSON.stringify({
    ...about,
    without: ["storage"],
    keys: sealed,
    files: files(database, place),
    ...more,
  });
  writeFileSync(join(place, `backups/${id}.json`), JSON.stringify({ sha256: sha256Bytes(manifest), manifest }));
  return { home, place, id };
}

function store(place: string, content: Uint8Array, path: string): Required<Omit<Content, "patches">> {
  const sha256 = sha256Bytes(content);
  const at = join(place, "chunks", sha256.slice(0, 2), sha256.slice(2));
  mkdirSync(dirname(at), { recursive: true });
  writeFileSync(at, content);
  return { path, bytes: content.length, chunks: [sha256] };
}

/** The message of both commands, and what they left behind beside the place. */
async function run({ home, place, id }: Awaited<ReturnType<typeof hostile>>) {
  const repository = openRepository(await openDirectory(place));
  const temp = join(home, "temp");
  mkdirSync(temp);
  const said = (error: unknown) => (error as Error).message;
  const verified = await (async () => {
    const manifest = await repository.getManifest(id);
    return (await verifyBackup({ repository, manifest, sealer }, temp)).join();
  })().catch(said);
  const restored = await (async () => {
    const manifest = await repository.getManifest(id);
    await restoreBackup({ repository, manifest, to: join(home, "restored"), sealer });
    return "";
  })().catch(said);
  const left = readdirSync(home, { recursive: true }).filter((name) => String(name).includes("PWNED"));
  return { verified, restored, left, isRestored: existsSync(join(home, "restored")), temp: readdirSync(temp) };
}

test("a backup of this author is sound without an attack", async () => {
  const outcome = await run(await hostile({ keys: { "tls/server.key": "key", "tls/a b.crt": "cert" } }));
  expect(outcome).toMatchObject({ verified: "", restored: "", isRestored: true, temp: [] });
});

describe("S5: names of sealed keys", () => {
  const NAMES = [
    ...[
      "../PWNED",
      "../../../PWNED",
      "/tmp/PWNED",
      "tls/../../PWNED",
      "tls/sub/PWNED",
      "tls/",
      "tls",
      "master.key/PWNED",
    ],
    ...[
      "verk.db",
      "config.toml",
      "tls/..",
      "tls/.",
      "",
      "tls//PWNED",
      "tls/PWNED\0",
      "__proto__/PWNED",
      "plugins/PWNED",
    ],
  ];
  test.each(NAMES)("%p is neither verified nor restored", async (name) => {
    const outcome = await run(await hostile({ keys: { [name]: "PWNED" } }));
    expect(outcome).toMatchObject({ left: [], isRestored: false, temp: [] });
    expect(outcome.verified).toContain("not written by Verk");
    expect(outcome.restored).toBe(outcome.verified);
  });

  test("too many, too long and other things than a list of texts are refused", async () => {
    const many = Object.fromEntries(Array.from({ length: 1_001 }, (_, i) => [`tls/${i}.key`, ""]));
    const attacks = [many, { "tls/a.key": "x".repeat(2 ** 20 + 1) }, { "master.key": 1 }, ["PWNED"], "PWNED"];
    for (const keys of attacks) {
      const outcome = await run(await hostile({ keys: keys as never }));
      expect([outcome.isRestored, outcome.verified]).toEqual([
        false,
        expect.stringMatching(/not written by Verk|sealed/),
      ]);
    }
  });
});

describe("S5: lists of files", () => {
  const EVIL: Record<string, (database: Content) => unknown> = {
    "a path outside": (file) => ({ ...file, path: "../PWNED" }),
    "an absolute path": (file) => ({ ...file, path: "/tmp/PWNED" }),
    "a path of 5,000 characters": (file) => ({ ...file, path: `PWNED${"x".repeat(5_000)}` }),
    "a path with a NUL": (file) => ({ ...file, path: "PWNED\0" }),
    "the same path twice": (file) => file,
    "a chunk name that is a path": (file) => ({ ...file, path: "PWNED", chunks: ["../../../../etc/passwd"] }),
    "501 patches": ({ chunks, ...file }) => ({ ...file, path: "PWNED", chunks, patches: Array(501).fill(chunks[0]) }),
    "a negative size": (file) => ({ ...file, path: "PWNED", bytes: -1 }),
    "more content than it says": (file) => ({ ...file, path: "PWNED", bytes: 10 }),
    "one chunk a thousand times": ({ chunks, ...file }) => ({
      ...file,
      path: "PWNED",
      chunks: Array(1_000).fill(chunks[0]),
    }),
    "more bytes than any disk": (file) => ({ ...file, path: "PWNED", bytes: 2 ** 53 - 1 }),
    "a patch that is no patch": ({ chunks, ...file }) => ({ ...file, path: "PWNED", chunks, patches: chunks }),
  };
  test.each(Object.keys(EVIL))("%s leaves nothing", async (name) => {
    const outcome = await run(await hostile({ files: (database) => [database, EVIL[name]?.(database)] }));
    expect(outcome).toMatchObject({ left: [], isRestored: false, temp: [] });
    expect(outcome.verified).not.toBe("");
    expect(outcome.restored).not.toBe("");
  });

  test("a chunk that is a device or a link to one is refused, and one that is too long", async () => {
    const made = await hostile({ files: (file) => [file, { ...file, path: "x", chunks: ["0".repeat(64)] }] });
    mkdirSync(join(made.place, "chunks/00"));
    symlinkSync("/dev/zero", join(made.place, "chunks/00", "0".repeat(62)));
    expect((await run(made)).verified).toContain("is no file");
    const long = await hostile({ files: (file) => [file, { ...file, path: "x", chunks: ["1".repeat(64)] }] });
    mkdirSync(join(long.place, "chunks/11"));
    Bun.spawnSync(["truncate", "-s", "1T", join(long.place, "chunks/11", "1".repeat(62))]);
    expect((await run(long)).verified).toContain("has more than");
  });

  test("a reference in the storage leads to no other file", async () => {
    const made = await hostile({
      sql: "CREATE TABLE evil (storage_key TEXT); INSERT INTO evil VALUES ('k')",
      files: (file, place) => {
        const zero = { sha256: "../../../../../../../../../../../dev/zero", bytes: 0 };
        return [file, store(place, Buffer.from(JSON.stringify(zero)), refPathOf("k"))];
      },
      more: { without: [] },
    });
    expect((await run(made)).verified).toContain("The content of k is missing or damaged");
  });

  test("a dataset's id leads to no other file", async () => {
    const made = await hostile({ sql: DATASET });
    expect((await run(made)).verified).toContain("is not one of Verk");
  });
});

const DATASET = `PRAGMA foreign_keys = OFF; DROP TABLE datasets;
  CREATE TABLE datasets (id TEXT PRIMARY KEY, source TEXT, head_row INTEGER);
  INSERT INTO datasets VALUES ('../../../../../../etc/passwd', NULL, 1)`;
