import { accessSync, constants, existsSync, readFileSync, statSync } from "node:fs";
import { join, resolve } from "node:path";
import { UsageError } from "../../lib/errors.ts";
import { isObject } from "../../lib/json/object.ts";
import { issueText } from "../../lib/text/issue.ts";
import { nearest } from "../../lib/text/nearest.ts";
import { isChanged, openChanges } from "./live.ts";
import { RULES, SETTINGS, type Settings } from "./schema.ts";
import type { SettingsTree, ValuesOf } from "./section.ts";
import { brokenLine, lineOf } from "./toml.ts";
import { type Leaf, leaves, readText, renderToml, sections } from "./walk.ts";

/**
 * Order: defaults < file < environment < flags. Unknown settings and wrong types stop the program, all of them with
 * their lines in the file. The result is frozen. After the start only the settings of live.ts change.
 */
type Env = Record<string, string | undefined>;
type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;
export type Config = DeepReadonly<Settings>;
export type ConfigSources = {
  file?: string | undefined;
  env?: Env;
  /** By path, `{ "http.listen": "…" }`. Text is read as in the environment; undefined is not given. */
  flags?: Record<string, unknown>;
};

/** The environment of this process. Workers get a few names of it. */
export const ambientEnv = (): Env => process.env;

const DEFAULT_CONFIG_FILE = "/etc/verk/config.toml";
/** Names under our prefix that are not settings of the server. The second line: of commands of clouds. */
const RESERVED =
  /^VERK_(FAILPOINT|INSPECT|BINARY|CONFIG|API_KEY|URL|WEBHOOK_SECRET|WORKER_\w+|TEST_\w+|MACHINE|CLOUD|GPU_TYPE|GPU_COUNT|SSH_PUBLIC_KEY\w*|COMMAND_\w+)$/;

/** Resolved: paths are absolute, `data_dir` and `secrets.master_key_file` are never empty. */
export function loadConfig({ file, env = process.env, flags = {} }: ConfigSources = {}): Config {
  const config = loadTree(SETTINGS, { file, env, flags }, RULES);
  config.data_dir = absolute(config.data_dir, env) || defaultDataDir(env);
  for (const name of ["tls_cert", "tls_key", "tls_client_ca"] as const)
    config.http[name] = absolute(config.http[name], env);
  for (const name of ["passphrase_file", "recipient_file"] as const)
    config.backup[name] = absolute(config.backup[name], env);
  config.oidc.client_secret_file = absolute(config.oidc.client_secret_file, env);
  config.network.ca_file = absolute(config.network.ca_file, env);
  config.billing.pricing_file = absolute(config.billing.pricing_file, env);
  config.secrets.master_key_file =
    absolute(config.secrets.master_key_file, env) || defaultMasterKeyFile(config.data_dir, env);
  openChanges(config);
  return deepFreeze(config);
}

/** By the loaded settings: where each value that is no default came from. */
const ORIGINS = new WeakMap<object, ReadonlyMap<string, string>>();

export type Setting = Pick<Leaf, "path" | "env" | "doc" | "kind" | "secret" | "live"> & {
  value: unknown;
  fallback: unknown;
  /** "the environment variable VERK_HTTP__LISTEN"; undefined: the default is in force. */
  origin: string | undefined;
};

/** Every setting as it is in force, with its meaning. Secrets are hidden. */
export function settingsInForce(config: Config): Setting[] {
  const values = printConfig(config);
  return leaves(SETTINGS).map(({ path, env, doc, kind, secret, live, fallback }) => ({
    path,
    env,
    doc,
    kind,
    secret,
    live,
    value: getPath(values, path),
    fallback: secret ? "" : fallback,
    origin: originOf(config, path),
  }));
}

/** The file with its line, the variable or the flag that sets it, or a change of the operator. Undefined: the default. */
export const originOf = (config: Config, path: string): string | undefined =>
  ORIGINS.get(config)?.get(path) ?? (isChanged(config, path) ? DASHBOARD : undefined);

export const DASHBOARD = "the dashboard";

/** The file to read: the one asked for, else VERK_CONFIG, else the system's where it exists. */
export function configFile(asked: string | undefined, env: Env = process.env): string | undefined {
  return asked ?? env["VERK_CONFIG"] ?? (existsSync(DEFAULT_CONFIG_FILE) ? DEFAULT_CONFIG_FILE : undefined);
}

/** A file whose secrets others on this machine can read. */
export type ExposedFile = { file: string; mode: string; settings: string[] };

/**
 * Undefined: the file holds no secret, or only its owner and its group can read it. The group is fine: the installer
 * gives the file to root and lets the group of the service read it.
 */
export function exposedSecrets(file: string | undefined): ExposedFile | undefined {
  if (file === undefined) return undefined;
  const { mode } = statSync(file);
  if ((mode & 0o006) === 0) return undefined;
  const settingLeaves = leaves(SETTINGS);
  const settings: string[] = [];
  const put = (path: string, value: unknown) => {
    if (value !== "" && settingLeaves.some((leaf) => leaf.path === path && leaf.secret)) settings.push(path);
  };
  readTomlFile(SETTINGS, settingLeaves, file, { put, wrong: () => {} });
  return settings.length === 0 ? undefined : { file, mode: (mode & 0o777).toString(8).padStart(4, "0"), settings };
}

/** One line for the command line and the log: what is wrong, and how to fix it. */
export const sayExposed = ({ file, mode, settings }: ExposedFile) => ({
  detail: `${file} has mode ${mode}, so every user of this machine can read ${settings.join(", ")}`,
  fix: `chmod 640 ${file} and replace the secret, or move it to the environment of the service`,
});

/** Every setting as it is in force, secrets hidden. */
export const printConfig = (config: Config): Record<string, unknown> => redactTree(SETTINGS, config);

export function defaultToml(): string {
  return `# Every setting of Verk with its default. Generated from the program: do not edit this copy.
# A setting can also come from the environment: [http] listen is VERK_HTTP__LISTEN; lists are separated by commas.
# VERK_DATA stands for data_dir. Flags win over the environment, the environment over this file.

${renderToml(SETTINGS)}`;
}

type Nested = { [key: string]: unknown };

/** Every mistake at once, so that an operator need not find them one start at a time. */
export class ConfigError extends UsageError {
  constructor(readonly mistakes: readonly string[]) {
    const [first = "", ...more] = mistakes;
    super(more.length === 0 ? first : `${mistakes.length} settings are wrong:\n${mistakes.join("\n")}`);
  }
}

/** A rule between settings. `path`: the setting that the message is about. */
type Rule<T> = { path: string; message: string; holds: (values: T) => boolean };

export function loadTree<T extends SettingsTree>(
  tree: T,
  { file, env = {}, flags = {} }: ConfigSources,
  rules: readonly Rule<ValuesOf<T>>[] = [],
): ValuesOf<T> {
  const all = leaves(tree);
  const values: Nested = {};
  const origins = new Map<string, string>();
  const mistakes: string[] = [];
  const to: Sink = {
    put(path, value, origin) {
      setPath(values, path, value);
      origins.set(path, origin);
    },
    wrong: (message) => void mistakes.push(message),
  };
  if (file !== undefined) readTomlFile(tree, all, file, to);
  readEnv(all, env, to);
  for (const [path, value] of Object.entries(flags)) {
    if (value === undefined) continue;
    const leaf = all.find((each) => each.path === path);
    if (!leaf) to.wrong(unknown(path, all.map(pathOf), "the command line"));
    else putText(leaf, value, "the command line", to);
  }
  const refuse = ({ path, secret }: Pick<Leaf, "path" | "secret">, message: string) => {
    const origin = origins.get(path) ?? file ?? "the configuration";
    const shown = secret ? "" : `, not ${JSON.stringify(getPath(values, path))}`;
    to.wrong(`${origin}: ${path}: ${message}${shown}`);
  };
  const loaded: Nested = {};
  let isWrong = false;
  for (const leaf of all) {
    const value = getPath(values, leaf.path);
    const read = value === undefined ? undefined : leaf.schema().safeParse(value);
    for (const issue of read?.error?.issues ?? []) refuse(leaf, issueText(issue).replace(/, not [^,]*$/, ""));
    isWrong ||= read?.success === false;
    setPath(loaded, leaf.path, read?.success ? read.data : structuredClone(leaf.fallback));
  }
  const settings = loaded as ValuesOf<T>;
  const broken = isWrong ? [] : rules.filter(({ holds }) => !holds(settings));
  for (const { path, message } of broken) refuse(all.find((leaf) => leaf.path === path) as Leaf, message);
  if (mistakes.length > 0) throw new ConfigError(mistakes);
  ORIGINS.set(loaded, origins);
  return settings;
}

export function redactTree(tree: SettingsTree, value: unknown): Nested {
  const copy = structuredClone(value) as Nested;
  for (const leaf of leaves(tree)) if (leaf.secret && getPath(copy, leaf.path)) setPath(copy, leaf.path, "[redacted]");
  return copy;
}

type Sink = {
  put: (path: string, value: unknown, origin: string) => void;
  wrong: (message: string) => void;
};

const UNREADABLE = new Map<string | undefined, string>([
  ["ENOENT", "there is no such file"],
  [
    "EACCES",
    "this user may not read it. Run the command with sudo, or name a server with --url if the command takes it",
  ],
]);

function readTomlFile(tree: SettingsTree, all: Leaf[], file: string, { put, wrong }: Sink) {
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (cause) {
    const why = UNREADABLE.get((cause as { code?: string }).code) ?? String(cause);
    throw new UsageError(`Cannot read the configuration ${file}: ${why}`, 2, { cause });
  }
  let parsed: Nested;
  try {
    parsed = Bun.TOML.parse(text) as Nested;
  } catch (cause) {
    throw new ConfigError([`${file}:${brokenLine(text)}: ${(cause as Error).message}`]);
  }
  const at = (path: string) => {
    const line = lineOf(text, path);
    return line === undefined ? file : `${file}:${line}`;
  };
  const groups = sections(tree);
  for (const [key, value] of Object.entries(parsed)) {
    if (groups.includes(key)) {
      if (isTable(value))
        for (const [inner, leafValue] of Object.entries(value)) take(`${key}.${inner}`, leafValue, all.map(pathOf));
      else wrong(`${at(key)}: ${key} is a section: write [${key}]`);
    } else if (isTable(value)) wrong(unknown(key, groups, at(key)));
    else take(key, value, all.map(pathOf));
  }

  function take(path: string, value: unknown, candidates: readonly string[]) {
    if (candidates.includes(path)) put(path, value, at(path));
    else wrong(unknown(path, candidates, at(path)));
  }
}

function readEnv(all: Leaf[], env: Env, to: Sink) {
  const byName = new Map(all.map((leaf) => [leaf.env, leaf]));
  const shorthand = byName.get("VERK_DATA_DIR");
  if (shorthand && env["VERK_DATA"]) to.put(shorthand.path, env["VERK_DATA"], "the environment variable VERK_DATA");
  for (const [name, text] of Object.entries(env)) {
    if (!name.startsWith("VERK_") || text === undefined || name === "VERK_DATA" || RESERVED.test(name)) continue;
    const leaf = byName.get(name);
    if (leaf) putText(leaf, text, `the environment variable ${name}`, to);
    else to.wrong(unknown(name, byName.keys(), "the environment"));
  }
}

function putText(leaf: Leaf, read: unknown, origin: string, { put, wrong }: Sink) {
  const value = typeof read === "string" ? readText(read, leaf.kind) : read;
  if (value !== undefined) return put(leaf.path, value, origin);
  const shown = leaf.secret ? "" : `, not ${JSON.stringify(read)}`;
  wrong(`${origin}: ${leaf.path}: expected ${leaf.kind === "boolean" ? "true or false" : "a number"}${shown}`);
}

function unknown(name: string, candidates: Iterable<string>, origin: string): string {
  const all = [...candidates];
  const close = all.find((each) => each.endsWith(`.${name}`)) ?? nearest(name, all);
  const hint = close ? ` Did you mean ${close}?` : "";
  return `${origin}: unknown setting ${name}.${hint} \`verk config default\` lists them all.`;
}

const pathOf = (leaf: Leaf) => leaf.path;
const isTable = (value: unknown): value is Nested => isObject(value) && !(value instanceof Date);

function setPath(target: Nested, path: string, value: unknown) {
  const [first = "", second] = path.split(".");
  if (second === undefined) target[first] = value;
  else {
    target[first] ??= {};
    (target[first] as Nested)[second] = value;
  }
}
function getPath(from: Nested, path: string): unknown {
  return path.split(".").reduce<unknown>((at, key) => (at as Nested | undefined)?.[key], from);
}

function absolute(path: string, env: Env): string {
  if (path === "") return "";
  return resolve(path.startsWith("~/") && env["HOME"] ? join(env["HOME"], path.slice(2)) : path);
}

function defaultDataDir(env: Env): string {
  try {
    accessSync("/var/lib/verk", constants.W_OK);
    return "/var/lib/verk";
  } catch {
    if (env["XDG_DATA_HOME"]?.startsWith("/")) return join(env["XDG_DATA_HOME"], "verk");
    return env["HOME"] ? join(env["HOME"], ".local/share/verk") : resolve("verk-data");
  }
}

function defaultMasterKeyFile(dataDir: string, env: Env): string {
  const credential = env["CREDENTIALS_DIRECTORY"] && join(env["CREDENTIALS_DIRECTORY"], "master.key");
  return credential && existsSync(credential) ? credential : join(dataDir, "master.key");
}

function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) {
    for (const inner of Object.values(value)) deepFreeze(inner);
    Object.freeze(value);
  }
  return value;
}
