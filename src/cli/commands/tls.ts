import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { hostname, networkInterfaces } from "node:os";
import { join } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { writeFileAtomicSync } from "../../platform/files.ts";
import type { Issued } from "../../platform/tls/issue.ts";
import { becomeOwnerOf } from "../../platform/workers/owner.ts";
import { CONFIG_FLAG, command, DATA_FLAG, EXIT, type Group, JSON_FLAG, wholeOf } from "../args.ts";
import { note, print, printJson } from "../output.ts";
import { settingsOf } from "../settings.ts";
import { acme } from "./operate/acme.ts";
import { checkedName } from "./operate/host_name.ts";

const DAYS = 397; // browsers reject certificates that are valid much longer
const MAX_DAYS = 825;
const DAYS_FLAG = { type: "string", value: "N", doc: `Days until the certificate ends (default ${DAYS})` } as const;

const init = command({
  summary: "Make an authority of your own and a certificate for this server; run it again to renew the certificate",
  flags: {
    name: {
      type: "string",
      value: "HOST",
      multiple: true,
      doc: "Another name or address of this server; those of the machine are included",
    },
    days: DAYS_FLAG,
    data: DATA_FLAG,
    config: CONFIG_FLAG,
    json: JSON_FLAG,
  },
  examples: ["verk tls init", "verk tls init --name verk.lab.example --name 10.0.0.5"],
  async run({ name, days, json, ...where }) {
    const dir = folderOf(where);
    const names = [...new Set([...name.map(checkedName), ...ownNames()])];
    const { issue } = await import("../../platform/tls/issue.ts");
    const { authority, isNew } = await authorityIn(dir);
    const certificate = await issue(authority, { names, days: daysOf(days), purpose: "server", nowMs: Date.now() });
    // The key comes first: a server that reads in between finds a pair that does not match, and keeps the old one.
    const files = { ca: join(dir, "ca.crt"), key: join(dir, "server.key"), cert: join(dir, "server.crt") };
    writeFileAtomicSync(files.key, certificate.key);
    writeFileAtomicSync(files.cert, certificate.cert, { mode: 0o644 });
    if (json) printJson({ object: "tls_certificate", ...files, names, new_authority: isNew });
    else explain(files, names, isNew);
    return EXIT.ok;
  },
});

const client = command({
  summary: "Make a certificate for a client, for servers with http.tls_client_ca",
  takes: ["NAME"],
  flags: { days: DAYS_FLAG, data: DATA_FLAG, config: CONFIG_FLAG, json: JSON_FLAG },
  examples: ["verk tls client laptop-of-ada"],
  async run({ days, json, ...where }, name = "") {
    if (!/^[\w.-]{1,50}$/.test(name))
      throw new UsageError(`NAME: expected letters, digits, dots and dashes, not ${JSON.stringify(name)}`);
    const dir = folderOf(where);
    if (!existsSync(join(dir, "ca.key")))
      throw new UsageError(`There is no authority in ${dir}. Make one with \`verk tls init\`.`);
    const { issue } = await import("../../platform/tls/issue.ts");
    const { authority } = await authorityIn(dir);
    const certificate = await issue(authority, {
      names: [name],
      days: daysOf(days),
      purpose: "client",
      nowMs: Date.now(),
    });
    mkdirSync(join(dir, "clients"), { recursive: true, mode: 0o700 });
    const files = { key: join(dir, "clients", `${name}.key`), cert: join(dir, "clients", `${name}.crt`) };
    writeFileAtomicSync(files.key, certificate.key);
    writeFileAtomicSync(files.cert, certificate.cert);
    if (json) printJson({ object: "tls_client_certificate", ...files });
    else {
      print(`Certificate  ${files.cert}\nPrivate key  ${files.key}`);
      note(`\nAccept clients of this authority only: http.tls_client_ca = "${join(dir, "ca.crt")}"`);
      note(`curl --cert ${files.cert} --key ${files.key} --cacert ${join(dir, "ca.crt")} https://…`);
    }
    return EXIT.ok;
  },
});

export const tls: Group = {
  summary: "Make certificates for this server and its clients",
  subcommands: { init, client, acme },
};

function folderOf(where: { data?: string | undefined; config?: string | undefined }): string {
  const { data_dir: dataDir } = settingsOf(where);
  becomeOwnerOf(dataDir);
  if (!existsSync(dataDir))
    throw new UsageError(`There is no data directory at ${dataDir}. Start the server once, or name it with --data.`);
  const dir = join(dataDir, "tls");
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  return dir;
}

/** The authority stays: clients trust it. Only the certificate of the server is made anew. */
async function authorityIn(dir: string): Promise<{ authority: Issued; isNew: boolean }> {
  const [cert, key] = [join(dir, "ca.crt"), join(dir, "ca.key")];
  if (existsSync(cert) && existsSync(key))
    return { authority: { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") }, isNew: false };
  const { issueAuthority } = await import("../../platform/tls/issue.ts");
  const authority = await issueAuthority(hostname(), Date.now());
  writeFileAtomicSync(key, authority.key);
  writeFileAtomicSync(cert, authority.cert, { mode: 0o644 });
  return { authority, isNew: true };
}

function daysOf(text: string | undefined): number {
  const days = wholeOf("days", text) ?? DAYS;
  if (days < 1 || days > MAX_DAYS) throw new UsageError(`--days: expected 1 to ${MAX_DAYS}, not ${days}`);
  return days;
}

/** The names and addresses by which clients can call this machine. Link-local addresses are no use without an interface. */
function ownNames(): string[] {
  const addresses = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
  const usable = addresses.filter(({ address }) => !/^(fe[89ab]|169\.254\.)/i.test(address));
  const name = hostname().toLowerCase();
  const named = /^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$/.test(name) ? [name] : [];
  return [...named, "localhost", "127.0.0.1", "::1", ...usable.map(({ address }) => address)];
}

function explain(files: { ca: string; cert: string; key: string }, names: readonly string[], isNew: boolean) {
  print(
    `Authority    ${files.ca}${isNew ? "" : " (unchanged)"}\nCertificate  ${files.cert}\nPrivate key  ${files.key}`,
  );
  print(`Names        ${names.join(", ")}`);
  note(`
1. Put this into the configuration and restart the server. A renewed certificate needs no restart.

[http]
tls_cert = "${files.cert}"
tls_key = "${files.key}"

2. Copy ${files.ca} to each client and trust it there. Keep ca.key on this machine.

Debian, Ubuntu  sudo cp ca.crt /usr/local/share/ca-certificates/verk.crt && sudo update-ca-certificates
RHEL, Fedora    sudo cp ca.crt /etc/pki/ca-trust/source/anchors/verk.crt && sudo update-ca-trust
macOS           sudo security add-trusted-cert -d -k /Library/Keychains/System.keychain ca.crt
Windows         certutil -addstore Root ca.crt
Firefox         Settings, Certificates, View Certificates, Authorities, Import
Python, curl    SSL_CERT_FILE=ca.crt
verk, Node.js   NODE_EXTRA_CA_CERTS=ca.crt`);
}
