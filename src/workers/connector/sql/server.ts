/** Reads a database server from `db_connection` and `credentials`: a URL or an object, without unknown fields. */
import { X509Certificate } from "node:crypto";
import { getCACertificates } from "node:tls";
import { parseIp } from "../../../lib/net/ip.ts";
import { judgeAddress, PUBLIC_ONLY } from "../../../platform/network/address.ts";
import { type Opening, SourceError } from "../types.ts";
import { needed, onlyKnown, textIn } from "./fault.ts";

const SSL_MODES = ["disable", "prefer", "require", "verify-ca", "verify-full"] as const;
export type SslMode = (typeof SSL_MODES)[number];

export type Server = {
  host: string;
  port: number;
  user: string;
  password: string;
  database: string | undefined;
  schema: string | undefined;
  sslmode: SslMode | undefined;
  /** PEM text from the credentials. */
  caCert: string | undefined;
};
export type ServerKind = { schemes: readonly string[]; port: number; fields: readonly string[] };

const CONNECTION = "/db_connection";
const CREDENTIALS = "/credentials";
const invalid = (message: string, param: string) => new SourceError("invalid_source", message, param);

export function readServer({ source, credentials }: Opening, kind: ServerKind): Server {
  const connection = source.db_connection ?? "";
  const fields = typeof connection === "string" ? fromUrl(connection, kind) : connection;
  onlyKnown(fields, ["host", "port", "database", "user", "sslmode", ...kind.fields], CONNECTION);
  onlyKnown(credentials, ["user", "username", "password", "ca_cert"], CREDENTIALS);
  const host = hostIn(fields);
  const inCredentials = (name: string) => textIn(credentials, name, CREDENTIALS);
  const user = inCredentials("user") ?? inCredentials("username") ?? textIn(fields, "user", CONNECTION);
  if (user === undefined)
    throw invalid("user is missing. Set it in db_connection or in credentials", `${CONNECTION}/user`);
  return {
    host,
    port: portIn(fields["port"], kind.port),
    user,
    password: inCredentials("password") ?? "",
    database: textIn(fields, "database", CONNECTION),
    schema: textIn(fields, "schema", CONNECTION),
    sslmode: modeIn(fields),
    caCert: certificateIn(inCredentials("ca_cert")),
  };
}

function fromUrl(text: string, kind: ServerKind): Record<string, string> {
  const wanted = kind.schemes.map((scheme) => `${scheme}://`);
  if (!URL.canParse(text) || !wanted.some((scheme) => text.toLowerCase().startsWith(scheme)))
    throw invalid(
      // The example has no user@, because no text that leaves this process may hold one in an address.
      `db_connection must be an address such as ${wanted[0]}host:${kind.port}/database, with the user in credentials`,
      CONNECTION,
    );
  const url = new URL(text);
  const parameters: Record<string, string> = {};
  for (const [name, value] of url.searchParams) {
    if (!["sslmode", ...kind.fields].includes(name))
      throw invalid(
        `db_connection has an unknown parameter ${name.slice(0, 100)}. Use sslmode${kind.fields.map((each) => `, ${each}`).join("")}`,
        CONNECTION,
      );
    parameters[name] = value;
  }
  return {
    ...parameters,
    host: decoded(url.hostname).replace(/^\[|\]$/g, ""),
    ...(url.port === "" ? {} : { port: url.port }),
    ...(url.username === "" ? {} : { user: decoded(url.username) }),
    ...(url.pathname.length < 2 ? {} : { database: decoded(url.pathname.slice(1)) }),
  };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw invalid("db_connection has a % that begins no escape. Write it as %25", CONNECTION);
  }
}

function hostIn(fields: Record<string, unknown>): string {
  const host = needed(fields, "host", CONNECTION);
  if (!/[/\\@\s]/.test(host)) return host;
  throw invalid("host must be a name or an IP address. Local sockets are not supported", `${CONNECTION}/host`);
}

function portIn(value: unknown, otherwise: number): number {
  const port = value === undefined || value === "" ? otherwise : Number(value);
  if (Number.isInteger(port) && port > 0 && port < 65_536) return port;
  throw invalid("port must be a number from 1 to 65535", `${CONNECTION}/port`);
}

function modeIn(fields: Record<string, unknown>): SslMode | undefined {
  const text = textIn(fields, "sslmode", CONNECTION);
  const mode = SSL_MODES.find((each) => each === text);
  if (text === undefined || mode) return mode;
  throw invalid(`sslmode must be one of ${SSL_MODES.join(", ")}`, `${CONNECTION}/sslmode`);
}

function certificateIn(pem: string | undefined): string | undefined {
  if (pem === undefined) return undefined;
  try {
    return new X509Certificate(pem) && pem;
  } catch {
    throw invalid("ca_cert must be a certificate in PEM format", `${CREDENTIALS}/ca_cert`);
  }
}

/**
 * The default depends on the server's address. On the internet the connection must be encrypted and verified. Inside a
 * network that the operator allowed, TLS is used if the server has it. With a given authority the certificate is always
 * verified.
 */
export function modeFor(server: Server, address: string): SslMode {
  if (server.sslmode) return server.sslmode;
  const bytes = parseIp(address);
  const isPublic = bytes === undefined || judgeAddress(bytes, PUBLIC_ONLY).allowed;
  return isPublic || server.caCert !== undefined ? "verify-full" : "prefer";
}

/** The public authorities, the operator's and the caller's: adding one must not remove the others. */
export const trusted = (server: Server, operators: string | undefined): string[] => [
  ...getCACertificates("default"),
  ...[operators, server.caCert].filter((pem) => pem !== undefined),
];
