import { z } from "zod";
import { Label, later } from "./schema.ts";
import { isSecretName } from "./text/redact.ts";

/** The source of a connected dataset's rows. docs/connectors.md describes it for users. */
export const SOURCE_TYPES = ["s3", "gs", "az", "hf", "postgres", "mysql", "snowflake", "bigquery"] as const;
export type SourceType = (typeof SOURCE_TYPES)[number];

const Words = z.string().max(10_000);
export const HubConfig = later(() =>
  z.object({
    config: Label().optional().describe("A configuration (subset) of the hub dataset"),
    revision: Label().optional(),
    split: Label().optional().describe("Default: train, else the only one there is"),
    column_mapping: z
      .record(z.string().max(200), z.string().min(1).max(200))
      .optional()
      .describe("Source → target column"),
    token: Words.optional().describe("Used, never stored"),
  }),
);
export const DbConnection = later(() =>
  z.union([Words.min(1), z.record(z.string().max(100), z.union([Words, z.number(), z.boolean()]))]),
);

export const Source = later(() =>
  z.object({
    source_type: z.enum(SOURCE_TYPES),
    source_uri: Words.nullish(),
    hub_dataset: Label(300).nullish(),
    hub_config: HubConfig.nullish(),
    db_connection: DbConnection.nullish(),
    db_query: z.string().trim().min(1).max(100_000).nullish(),
  }),
);
export type Source = z.infer<typeof Source>;

export const Credentials = later(() => z.record(z.string().max(100), z.unknown()));
export type Credentials = z.infer<typeof Credentials>;

const OBJECTS: readonly SourceType[] = ["s3", "gs", "az"];
const DATABASES: readonly SourceType[] = ["postgres", "mysql", "snowflake", "bigquery"];
export const isDatabase = (type: SourceType) => DATABASES.includes(type);

/** The first field that this type of source needs and that is missing or does not fit it. */
export function faultOf(source: Source): { param: string; message: string } | undefined {
  const { source_type: type } = source;
  const need = (param: keyof Source, example: string) =>
    source[param] === undefined || source[param] === null || source[param] === ""
      ? { param: `/${param}`, message: `${param} is required for ${type}, such as ${example}` }
      : undefined;
  if (OBJECTS.includes(type)) {
    const missing = need("source_uri", `${type}://bucket/path/rows.jsonl`);
    if (missing) return missing;
    if (!source.source_uri?.startsWith(`${type}://`))
      return { param: "/source_uri", message: `source_uri must begin with ${type}:// for the source type ${type}` };
  }
  if (type === "hf") return need("hub_dataset", "owner/name");
  if (DATABASES.includes(type))
    return need("db_connection", CONNECTIONS[type] ?? "") ?? need("db_query", "SELECT prompt FROM rows");
  return undefined;
}

const CONNECTIONS: Partial<Record<SourceType, string>> = {
  postgres: "postgres://user@host:5432/database",
  mysql: "mysql://user@host:3306/database",
  snowflake: '{"account": "org-account", "user": "…", "warehouse": "…"}',
  bigquery: '{"project_id": "…"}',
};

/**
 * Moves secrets of a connection string to the credentials, which live in memory only. The rest may be stored and shown.
 */
export function splitSecrets(source: Source, sent: Credentials = {}): { source: Source; credentials: Credentials } {
  const credentials: Credentials = { ...sent };
  const clean = ownFields(source);
  if (source.hub_config?.token !== undefined) {
    const { token, ...rest } = source.hub_config;
    credentials["token"] ??= token;
    clean.hub_config = rest;
  }
  if (typeof clean.db_connection === "string") clean.db_connection = withoutPassword(clean.db_connection, credentials);
  else if (clean.db_connection)
    clean.db_connection = Object.fromEntries(
      Object.entries(clean.db_connection).filter(([name, value]) => {
        if (!isSecretName(name)) return true;
        credentials[name] ??= value;
        return false;
      }),
    );
  if (clean.source_uri) clean.source_uri = withoutSignature(clean.source_uri, credentials);
  return { source: clean, credentials };
}

/**
 * The fields that this type of source reads. The others are not kept: they would never be checked, and may be secret.
 */
function ownFields({ source_type, source_uri, hub_dataset, hub_config, db_connection, db_query }: Source): Source {
  const common = { source_type, hub_config };
  if (OBJECTS.includes(source_type)) return { ...common, source_uri };
  return source_type === "hf" ? { ...common, hub_dataset } : { ...common, db_connection, db_query };
}

function withoutPassword(text: string, credentials: Credentials): string {
  if (!URL.canParse(text)) return text;
  const url = new URL(text);
  if (url.password !== "") credentials["password"] ??= decoded(url.password);
  url.password = "";
  url.hash = "";
  for (const name of [...url.searchParams.keys()]) {
    if (!isSecretName(name)) continue;
    credentials[name] ??= url.searchParams.get(name);
    url.searchParams.delete(name);
  }
  return url.href;
}

/** A % that begins no escape stands for itself, as people mean it. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** A shared access signature is the query of an Azure address: but for our own option, it is the credential. */
function withoutSignature(text: string, credentials: Credentials): string {
  const at = text.indexOf("?");
  if (at < 0) return text;
  const query = new URLSearchParams(text.slice(at));
  if (query.has("sig")) {
    const endpoint = query.get("endpoint");
    query.delete("endpoint");
    credentials["sas_token"] ??= query.toString();
    return endpoint === null ? text.slice(0, at) : `${text.slice(0, at)}?${new URLSearchParams({ endpoint })}`;
  }
  for (const name of [...query.keys()]) {
    if (!isSecretName(name) && !/^(x-amz-|x-goog-)/i.test(name)) continue;
    credentials[name] ??= query.get(name);
    query.delete(name);
  }
  const rest = query.toString();
  return rest === "" ? text.slice(0, at) : `${text.slice(0, at)}?${rest}`;
}
