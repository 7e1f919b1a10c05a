import { createPrivateKey, generateKeyPairSync, type KeyObject, X509Certificate } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { UsageError } from "../../../lib/errors.ts";
import { parseIp } from "../../../lib/net/ip.ts";
import { type Listen, parseListen } from "../../../lib/net/listen.ts";
import { DAY_MS } from "../../../lib/units.ts";
import type { Config } from "../../../platform/config/config.ts";
import { isHeld } from "../../../platform/db/data_lock.ts";
import { writeFileAtomicSync } from "../../../platform/files.ts";
import { guardedDial } from "../../../platform/network/http_client.ts";
import type { ChallengeKind, Prove } from "../../../platform/tls/acme.ts";
import { becomeOwnerOf } from "../../../platform/workers/owner.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, JSON_FLAG } from "../../args.ts";
import { note, print, printJson } from "../../output.ts";
import { settingsOf } from "../../settings.ts";
import { checkedName } from "./host_name.ts";

const KINDS: readonly ChallengeKind[] = ["http-01", "tls-alpn-01"];

export const acme = command({
  summary: "Get a certificate from an ACME authority; run it again to renew the certificate when it is due",
  flags: {
    name: {
      type: "string",
      value: "HOST",
      multiple: true,
      doc: "A name or address of this server; repeatable (default: acme.names)",
    },
    directory: {
      type: "string",
      value: "URL",
      doc: "Directory of the authority, such as https://ca.lab.example/acme/directory (default: acme.directory)",
    },
    email: { type: "string", value: "ADDRESS", doc: "Address for messages of the authority (default: acme.email)" },
    challenge: {
      type: "string",
      value: "KIND",
      choices: ["http-01", "tls-alpn-01"],
      doc: 'Proof: http-01 or tls-alpn-01 (default "http-01")',
    },
    listen: {
      type: "string",
      value: "HOST:PORT",
      doc: "Where the authority finds the proof (default 0.0.0.0:80, or 0.0.0.0:443 for tls-alpn-01)",
    },
    force: { type: "boolean", doc: "Renew a certificate that is not due yet" },
    data: DATA_FLAG,
    config: CONFIG_FLAG,
    json: JSON_FLAG,
  },
  examples: [
    "verk tls acme --name verk.lab.example --directory https://ca.lab.example/acme/directory",
    "verk tls acme --name verk.example.com --directory URL --challenge tls-alpn-01",
  ],
  async run({ name, directory, email, challenge = "http-01", listen, force, json, ...where }) {
    const kind = KINDS.find((each) => each === challenge);
    if (kind === undefined) throw new UsageError("--challenge: expected http-01 or tls-alpn-01");
    const settings = settingsOf(where);
    becomeOwnerOf(settings.data_dir);
    const address = directory ?? settings.acme.directory;
    if (!address.startsWith("https://") || !URL.canParse(address))
      throw new UsageError("--directory: expected the https address of the authority");
    const names = [...new Set((name.length === 0 ? settings.acme.names : name).map(checkedName))];
    if (names.length === 0) throw new UsageError("--name: name this server as its clients do");
    if (!existsSync(settings.data_dir))
      throw new UsageError(`There is no data directory at ${settings.data_dir}. Start the server once, or use --data.`);
    const dir = join(settings.data_dir, "tls");
    mkdirSync(dir, { recursive: true, mode: 0o700 });
    const files = { cert: join(dir, "acme.crt"), key: join(dir, "acme.key") };
    const left = force ? undefined : daysLeft(files.cert, names);
    if (left !== undefined) {
      note(`The certificate is valid for ${left} more days: nothing to do. Use --force to renew it now.`);
      return EXIT.ok;
    }
    const at = listenOf(listen ?? (kind === "http-01" ? "0.0.0.0:80" : "0.0.0.0:443"));
    const { prove, end } = await proofs(kind, settings, at);
    try {
      const [{ orderCertificate }, { request }] = await Promise.all([
        import("../../../platform/tls/acme.ts"),
        import("../../../platform/tls/issue.ts"),
      ]);
      const { csr, key } = await request(names);
      const order = { dial: guardedDial(settings.network), directory: address, accountKey: accountKeyIn(dir) };
      const contact = email ?? settings.acme.email;
      const cert = await orderCertificate({ ...order, email: contact || undefined, names, kind, prove, csr });
      // The key comes first: a server that reads in between finds a pair that does not match, and keeps the old one.
      writeFileAtomicSync(files.key, key);
      writeFileAtomicSync(files.cert, cert, { mode: 0o644 });
    } finally {
      await end();
    }
    const { validTo } = new X509Certificate(readFileSync(files.cert));
    if (json) printJson({ object: "tls_certificate", ...files, names, valid_to: new Date(validTo).toISOString() });
    else print(`Certificate  ${files.cert}\nPrivate key  ${files.key}\nValid until  ${validTo}`);
    note(
      "Set http.tls_cert and http.tls_key to these files. With acme.directory and acme.names the server renews them.",
    );
    return EXIT.ok;
  },
});

/** The days that are left, if the certificate is for these names and not in the last third of its time. */
function daysLeft(file: string, names: readonly string[]): number | undefined {
  if (!existsSync(file)) return undefined;
  const cert = new X509Certificate(readFileSync(file));
  const [from, to] = [Date.parse(cert.validFrom), Date.parse(cert.validTo)];
  const covers = names.every(
    (name) => (parseIp(name) === undefined ? cert.checkHost(name) : cert.checkIP(name)) !== undefined,
  );
  const left = to - Date.now();
  return covers && left > (to - from) / 3 ? Math.floor(left / DAY_MS) : undefined;
}

function listenOf(text: string): Listen {
  const at = parseListen(text);
  if (!at) throw new UsageError(`--listen: expected HOST:PORT, not ${JSON.stringify(text)}`);
  return at;
}

/** A running server answers http-01 on its port of http.redirect_listen. Without one, this command listens itself. */
async function proofs(
  kind: ChallengeKind,
  { data_dir: dataDir, http }: Config,
  at: Listen,
): Promise<{ prove: Prove; end: () => unknown }> {
  const { proveByFile, proveByHandshake, serveChallenges } = await import("../../../platform/tls/challenges.ts");
  if (kind === "tls-alpn-01") {
    const { issueProof } = await import("../../../platform/tls/issue.ts");
    return { prove: proveByHandshake(at, (name, text) => issueProof(name, text, Date.now())), end: () => {} };
  }
  const isServed = isHeld(dataDir).held && http.redirect_listen !== "";
  const end = isServed ? () => {} : serveChallenges(dataDir, at);
  return { prove: proveByFile(dataDir), end };
}

function accountKeyIn(dir: string): KeyObject {
  const file = join(dir, "acme-account.key");
  if (!existsSync(file)) {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    writeFileAtomicSync(file, privateKey.export({ format: "pem", type: "pkcs8" }) as string);
  }
  return createPrivateKey(readFileSync(file));
}
