import { afterAll, afterEach, beforeAll, describe, expect, test } from "bun:test";
import { generateKeyPairSync } from "node:crypto";
import type { Credentials, Source } from "../../src/lib/source.ts";
import * as az from "../../src/workers/connector/az.ts";
import * as bigquery from "../../src/workers/connector/bigquery.ts";
import { createDialer, type Dialer, type Network } from "../../src/workers/connector/dialer.ts";
import * as gs from "../../src/workers/connector/gs.ts";
import * as hf from "../../src/workers/connector/hf.ts";
import * as mysql from "../../src/workers/connector/mysql.ts";
import * as postgres from "../../src/workers/connector/postgres.ts";
import * as s3 from "../../src/workers/connector/s3.ts";
import * as snowflake from "../../src/workers/connector/snowflake.ts";
import { type Open, SourceError } from "../../src/workers/connector/types.ts";
import { LIMITS, quiet } from "../connectors/sql_kit.ts";
import { FORMS, HOSTS, NAMES, plain } from "./outbound_forms.ts";
import { lookup, NO_WALL, recordDials } from "./outbound_kit.ts";

const PEM = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ type: "pkcs8", format: "pem" });
const KEYS = { access_key_id: "AKIAEXAMPLE", secret_access_key: "secret" };
const QUERY = "SELECT 1";

type Aim = { open: Open; source: Source; credentials: Credentials; hub?: string };
/** Fields that an attacker controls, with a source that contains an address or a host. */
const ADDRESSES: Record<string, (url: string) => Aim> = {
  "s3 endpoint": (url) => ({
    open: s3.open,
    source: uri("s3", "s3://bucket/rows.jsonl"),
    credentials: { ...KEYS, endpoint: url },
  }),
  "gs endpoint": (url) => ({
    open: gs.open,
    source: uri("gs", "gs://bucket/rows.jsonl"),
    credentials: { access_token: "t", endpoint: url },
  }),
  "gs token_uri": (url) => ({
    open: gs.open,
    source: uri("gs", "gs://bucket/rows.jsonl"),
    credentials: { service_account: account(url) },
  }),
  "az endpoint": (url) => ({
    open: az.open,
    source: uri("az", "az://account/box/rows.jsonl"),
    credentials: { account_key: "a2V5", endpoint: url },
  }),
  "snowflake endpoint": (url) => ({
    open: snowflake.open,
    source: {
      source_type: "snowflake",
      db_connection: { account: "org-a", user: "u", endpoint: url },
      db_query: QUERY,
    },
    credentials: { token: "t" },
  }),
  "bigquery endpoint": (url) => ({
    open: bigquery.open,
    source: { source_type: "bigquery", db_connection: { project_id: "p", endpoint: url }, db_query: QUERY },
    credentials: { access_token: "t" },
  }),
  "bigquery token_uri": (url) => ({
    open: bigquery.open,
    source: { source_type: "bigquery", db_connection: { project_id: "p" }, db_query: QUERY },
    credentials: { service_account: account(url) },
  }),
  "hf hub": (url) => ({ open: hf.open, source: { source_type: "hf", hub_dataset: "a/b" }, credentials: {}, hub: url }),
};
const SERVERS: Record<string, (host: string) => Aim> = {
  "postgres host": (host) => server(postgres.open, "postgres", { host, user: "u", database: "d" }),
  "mysql host": (host) => server(mysql.open, "mysql", { host, user: "u", database: "d" }),
  "postgres URL": (host) => server(postgres.open, "postgres", `postgres://u@${bracketed(host)}/d`),
  "mysql URL": (host) => server(mysql.open, "mysql", `mysql://u@${bracketed(host)}/d`),
};
const bracketed = (host: string) => (host.includes(":") ? `[${host}]` : host);
const uri = (source_type: "s3" | "gs" | "az", source_uri: string): Source => ({ source_type, source_uri });
const account = (token_uri: string) => ({ client_email: "a@example.com", private_key: String(PEM), token_uri });
const server = (open: Open, source_type: "postgres" | "mysql", db_connection: Source["db_connection"]): Aim => ({
  open,
  source: { source_type, db_connection, db_query: QUERY },
  credentials: { password: "p" },
});

const CLOSED: Network = { allow_private: false, allow: [], ca_file: "" };
const OPEN: Network = { ...CLOSED, allow: NO_WALL["network.allow"] };
let dials: ReturnType<typeof recordDials>;
beforeAll(() => {
  dials = recordDials();
});
afterAll(() => dials.stop());
afterEach(() => void dials.hosts.splice(0));

/** Records the address that a database driver would connect to, and connects to nothing. */
function dialerOf(network: Network): Dialer {
  const real = createDialer(network, { connectMs: 60_000, lookup });
  const resolve: Dialer["resolve"] = async (host, signal) => {
    dials.hosts.push(await real.resolve(host, signal));
    throw new SourceError("unreachable", "no packet leaves a test");
  };
  return { ...real, resolve };
}

async function outcome(
  { open, source, credentials, hub = "https://hub.example" }: Aim,
  network = CLOSED,
): Promise<string> {
  try {
    const connector = open({ source, credentials, dialer: dialerOf(network), limits: LIMITS, hubEndpoint: hub });
    await connector.test(quiet());
    return "answered";
  } catch (error) {
    return error instanceof SourceError ? error.code : `${error}`;
  }
}

describe("no form gets through a connector", () => {
  test.each(Object.keys(ADDRESSES))("%s", async (name) => {
    const got = new Map<string, string>();
    const signs = name.includes("token_uri"); // with RSA, each time
    for (const form of [...FORMS, ...FORMS.map(plain)].filter((_, i) => !signs || i % 5 === 0)) {
      const code = await outcome(ADDRESSES[name]!(form));
      if (code !== "address_refused" && code !== "invalid_source") got.set(form, code);
    }
    expect([...got].filter(([form]) => !leadsOut(form))).toEqual([]);
    expect(dials.hosts).toEqual([]);
  });

  test.each(Object.keys(SERVERS))("%s", async (name) => {
    const got = new Map<string, string>();
    for (const host of HOSTS) {
      const code = await outcome(SERVERS[name]!(host));
      if (code !== "address_refused" && code !== "invalid_source") got.set(host, code);
    }
    expect([...got]).toEqual([]);
    expect(dials.hosts).toEqual([]);
  });

  /**
   * An endpoint is parsed before it is judged: two forms then name example.com, which does not resolve here. What is no
   * URL at all can only be the hub's, which the operator sets and the configuration checks.
   */
  const leadsOut = (form: string) => !URL.canParse(form) || new URL(form).hostname === "example.com";
});

test("a name that leads inside passes no connector, and its address is in no message", async () => {
  const got = new Map<string, string>();
  const said = new Set<string>();
  for (const name of Object.keys(NAMES)) {
    const aims = [
      ...Object.values(ADDRESSES).flatMap((aim) => [aim(`https://${name}`), aim(`http://${name}:8080`)]),
      ...Object.values(SERVERS).map((aim) => aim(name)),
    ];
    for (const aim of aims) {
      const code = await outcome(aim);
      if (code !== "address_refused") got.set(`${name} ${aim.source.source_type}`, code);
      const { open, source, credentials, hub = "https://hub.example" } = aim;
      const connector = open({ source, credentials, dialer: dialerOf(CLOSED), limits: LIMITS, hubEndpoint: hub });
      said.add(String(await connector.test(quiet()).catch((error) => error.message)).replaceAll(name, "NAME"));
    }
  }
  expect([...got]).toEqual([]);
  expect([...said].sort()).toEqual([
    "NAME leads to an address that is not allowed. The operator can allow it with network.allow or network.allow_private",
    "The URL is not allowed: must begin with https://. The operator can allow it with network.allow or network.allow_private",
  ]);
  expect(dials.hosts).toEqual([]);
});

test("without the guard each connector connects inside, so the attacks are real", async () => {
  for (const aim of Object.values(ADDRESSES)) {
    dials.hosts.splice(0);
    await outcome(aim("https://169.254.169.254"), OPEN);
    expect(dials.hosts).toEqual(["169.254.169.254"]);
  }
  for (const aim of Object.values(SERVERS)) {
    dials.hosts.splice(0);
    await outcome(aim("10.1.2.3"), OPEN);
    expect(dials.hosts).toEqual(["10.1.2.3"]);
  }
});
