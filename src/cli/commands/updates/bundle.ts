import { existsSync, mkdirSync, readdirSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { formatBytes } from "../../../lib/bytes.ts";
import { UsageError } from "../../../lib/errors.ts";
import { writeFileAtomicSync } from "../../../platform/files.ts";
import {
  generateKey,
  keyName,
  publicKeyFile,
  publicKeyLine,
  readSecretKey,
  secretKeyFile,
} from "../../../platform/updates/minisign/keys.ts";
import type { Bundle } from "../../../platform/updates/read_bundle.ts";
import { type Content, nameInBundle, writeBundle } from "../../../platform/updates/write_bundle.ts";
import { CONFIG_FLAG, command, EXIT, type Group, JSON_FLAG } from "../../args.ts";
import { count, note, print, printJson, printTable } from "../../output.ts";
import { KEY_FLAG, openTrusted, textOf } from "./trusted.ts";

const PASSPHRASE = { type: "string", value: "FILE", doc: "File with the passphrase of the secret key" } as const;
const FILES = { type: "string", multiple: true } as const;

const key = command({
  summary: "Make a key pair that signs bundles, in the format of minisign",
  takes: ["FILE"],
  flags: { "passphrase-file": PASSPHRASE, json: JSON_FLAG },
  examples: ["verk bundle key release.key --passphrase-file passphrase.txt"],
  run({ "passphrase-file": passphrase, json }, file = "") {
    const [secret, pub] = [resolve(file), `${resolve(file).replace(/\.key$/, "")}.pub`];
    for (const path of [secret, pub]) if (existsSync(path)) throw new UsageError(`${path} exists: choose another name`);
    const signingKey = generateKey();
    writeFileAtomicSync(secret, secretKeyFile(signingKey, passphraseOf(passphrase)));
    writeFileAtomicSync(pub, publicKeyFile(signingKey), { mode: 0o644 });
    if (json)
      printJson({
        object: "signing_key",
        id: keyName(signingKey.id),
        secret_key: secret,
        public_key: publicKeyLine(signingKey),
      });
    else print(`Secret key  ${secret}\nPublic key  ${pub}\n            ${publicKeyLine(signingKey)}`);
    if (passphrase === undefined) note("The secret key has no passphrase: every reader of the file can sign.");
    return EXIT.ok;
  },
});

const create = command({
  summary: "Put executables, models and documents into one signed file for `verk upgrade`",
  flags: {
    executable: { ...FILES, value: "FILE", doc: "An executable of Verk; once for each platform" },
    model: { ...FILES, value: "FILE", doc: "A model that travels with the release" },
    add: { ...FILES, value: "PATH", doc: "A document, or a folder of documents" },
    sbom: { type: "string", value: "FILE", doc: "The list of components (CycloneDX)" },
    key: { type: "string", value: "FILE", doc: "Secret key of minisign, such as one of `verk bundle key`" },
    "passphrase-file": PASSPHRASE,
    out: { type: "string", value: "FILE", doc: "The bundle (default: verk.bundle)" },
    json: JSON_FLAG,
  },
  examples: ["verk bundle create --executable dist/verk --add docs --key release.key"],
  async run({ executable, model, add, sbom, key: keyFile, out, json, ...flags }) {
    if (keyFile === undefined) throw new UsageError("--key is missing: name the secret key that signs the bundle");
    const secret = readSecretKey(textOf("key", keyFile), passphraseOf(flags["passphrase-file"]));
    const contents: Content[] = [
      ...(sbom === undefined ? [] : [{ kind: "sbom" as const, path: "sbom.cdx.json", from: resolve(sbom) }]),
      ...add.flatMap(documentsOf),
      ...model.map((from) => ({ kind: "model" as const, path: `models/${nameInBundle(from)}`, from: resolve(from) })),
    ];
    const path = resolve(out ?? "verk.bundle");
    const manifest = await writeBundle({
      out: path,
      executables: executable.map((file) => resolve(file)),
      contents,
      key: secret,
    });
    if (json) printJson({ object: "bundle", path, signer: keyName(secret.id), ...manifest });
    else {
      print(path);
      note(
        `verk ${manifest.version}, ${count(manifest.files.length, "file")}, signed with the key ${keyName(secret.id)}`,
      );
    }
    return EXIT.ok;
  },
});

const verify = command({
  summary: "Verify the signature and every byte of a bundle, and list it",
  takes: ["FILE"],
  flags: { key: KEY_FLAG, config: CONFIG_FLAG, json: JSON_FLAG },
  examples: ["verk bundle verify verk-0.2.0.bundle"],
  exits: { 5: "the bundle is damaged, not complete, or signed with a foreign key" },
  run: ({ json, ...flags }, file = "") =>
    withBundle(file, flags, async ({ manifest, signer, check }) => {
      await check();
      if (json) printJson({ object: "bundle", signer, ...manifest });
      else {
        const rows = manifest.files.map(({ path, kind, bytes, sha256 }) => [path, kind, formatBytes(bytes), sha256]);
        printTable(["FILE", "KIND", "SIZE", "SHA256"], rows, "", { full: true });
        note(
          `verk ${manifest.version} (${manifest.commit}), database ${manifest.database_version}, signed with the key ${signer}`,
        );
      }
    }),
});

const extract = command({
  summary: "Verify a bundle and write its files into a new folder",
  takes: ["FILE", "DIR"],
  flags: { key: KEY_FLAG, config: CONFIG_FLAG },
  examples: ["verk bundle extract verk-0.2.0.bundle release"],
  exits: { 5: "the bundle is damaged, not complete, or signed with a foreign key" },
  run: (flags, file = "", dir = "") =>
    withBundle(file, flags, async (bundle) => {
      if (existsSync(dir)) throw new UsageError(`${dir} exists: name a new folder`);
      await bundle.check();
      for (const each of bundle.manifest.files) {
        const to = join(resolve(dir), each.path);
        mkdirSync(dirname(to), { recursive: true });
        await bundle.extract(each, to);
      }
      print(resolve(dir));
    }),
});

export const bundle: Group = {
  summary: "Make, verify and extract signed releases",
  subcommands: { create, verify, extract, key },
};

type Where = Parameters<typeof openTrusted>[1];

async function withBundle(file: string, where: Where, body: (bundle: Bundle) => Promise<void>): Promise<number> {
  const opened = await openTrusted(file, where);
  try {
    await body(opened);
    return EXIT.ok;
  } finally {
    await opened.close();
  }
}

const passphraseOf = (file: string | undefined) =>
  file === undefined ? undefined : textOf("passphrase-file", file).replace(/\r?\n$/, "");

function documentsOf(path: string): Content[] {
  const from = resolve(path);
  const stats = statSync(from, { throwIfNoEntry: false });
  if (!stats) throw new UsageError(`--add: ${path} does not exist`);
  if (stats.isFile()) return [{ kind: "document", path: nameInBundle(from), from }];
  return readdirSync(from, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort()
    .map((each) => ({ kind: "document", path: `${nameInBundle(from)}/${relative(from, each)}`, from: each }));
}
