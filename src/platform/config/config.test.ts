import { describe, expect, test } from "bun:test";
import { chmodSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { z } from "zod";
import { UsageError } from "../../lib/errors.ts";
import { configFile, defaultToml, exposedSecrets, loadConfig, loadTree, printConfig, redactTree } from "./config.ts";
import { SETTINGS } from "./schema.ts";
import { secret, section, setting } from "./section.ts";
import { leaves, renderToml } from "./walk.ts";

const dir = mkdtempSync(join(tmpdir(), "verk-config-"));
const tomlFile = (text: string) => {
  const file = join(dir, `${crypto.randomUUID()}.toml`);
  writeFileSync(file, text);
  return file;
};
const failure = (load: () => unknown): string => {
  try {
    load();
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return (error as Error).message;
  }
  throw new Error("it was accepted");
};

test("a file with secrets that others can read is named, with these settings", () => {
  const file = tomlFile('[storage]\ns3_secret_access_key = "hunter2"\ns3_access_key_id = ""\n[log]\nlevel = "warn"\n');
  const exposed = (mode: number, path = file) => {
    chmodSync(path, mode);
    return exposedSecrets(path);
  };
  expect(exposed(0o644)).toEqual({ file, mode: "0644", settings: ["storage.s3_secret_access_key"] });
  expect(exposed(0o602)?.mode).toBe("0602");
  expect([exposed(0o640), exposed(0o600), exposedSecrets(undefined)]).toEqual([undefined, undefined, undefined]);
  expect(exposed(0o644, tomlFile('[log]\nlevel = "warn"\n'))).toBeUndefined();
});

test("flags win over the environment, the environment over the file, the file over the defaults", () => {
  const file = tomlFile(
    '[http]\nlisten = "1.1.1.1:1"\nmax_body_bytes = 2048\nrate_limit_burst = 7\n[log]\nlevel = "warn"\n',
  );
  const env = { VERK_HTTP__LISTEN: "2.2.2.2:2", VERK_HTTP__MAX_BODY_BYTES: "4096" };
  const config = loadConfig({ file, env, flags: { "http.listen": "3.3.3.3:3", data_dir: undefined } });
  expect(config.http.listen).toBe("3.3.3.3:3");
  expect(config.http.max_body_bytes).toBe(4096);
  expect(config.http.rate_limit_burst).toBe(7);
  expect(config.log.level).toBe("warn");
  expect(config.db.busy_timeout_ms).toBe(1000);
});

test("every setting has a doc, a default and an environment name that sets it", () => {
  for (const leaf of leaves(SETTINGS)) {
    expect(leaf.doc, leaf.path).toMatch(/\.$/);
    expect(leaf.schema().parse(leaf.fallback), leaf.path).toEqual(leaf.fallback);
    const text = Array.isArray(leaf.fallback) ? leaf.fallback.join(",") : String(leaf.fallback);
    expect(() => loadConfig({ env: { [leaf.env]: text } }), leaf.env).not.toThrow();
  }
});

test("lists and booleans are read from the environment", () => {
  const env = {
    VERK_NETWORK__ALLOW: "10.0.0.0/8, hooks.lan",
    VERK_NETWORK__ALLOW_PRIVATE: "1",
    VERK_HTTP__CORS_ORIGINS: "",
  };
  const config = loadConfig({ env });
  expect(config.network.allow).toEqual(["10.0.0.0/8", "hooks.lan"]);
  expect(config.network.allow_private).toBe(true);
  expect(config.http.cors_origins).toEqual([]);
});

describe("a wrong setting stops the program, and the error names the setting and its source", () => {
  test.each([
    ["[http]\nlisen = 1", ["http.lisen", "http.listen"]],
    ["[htpp]\nlisten = 1", ["htpp", "http"]],
    ["listen = 1", ["listen", "http.listen"]],
    ["data_dirr = 1", ["data_dirr", "data_dir"]],
    ['[http]\nmax_body_bytes = "10MB"', ["http.max_body_bytes", "must be a number", '"10MB"']],
    ['[http]\nlisten = "7070"', ["http.listen", "expected host:port"]],
    ['[network]\nallow = ["10.0.0.1/8"]', ["network.allow", "CIDR"]],
    ["[network]\nallow = [1]", ["network.allow", "must be a text"]],
    ['[log]\nlevel = "loud"', ["log.level", '"debug"', '"loud"']],
    ["http = 3", ["[http]"]],
    ["a = = 1", ["TOML"]],
  ] as const)("file %p", (text, parts) => {
    const file = tomlFile(text);
    const message = failure(() => loadConfig({ file, env: {} }));
    for (const part of [file, ...parts]) expect(message).toContain(part);
  });

  test.each([
    [{ VERK_HTTP__LISEN: "x" }, ["VERK_HTTP__LISEN", "VERK_HTTP__LISTEN"]],
    [{ VERK_DB__CACHE_MIB: "lots" }, ["VERK_DB__CACHE_MIB", "db.cache_mib", "a number", "lots"]],
    [{ VERK_NETWORK__ALLOW_PRIVATE: "maybe" }, ["VERK_NETWORK__ALLOW_PRIVATE", "true or false"]],
    [{ VERK_EVENTS__RETENTION_DAYS: "0" }, ["VERK_EVENTS__RETENTION_DAYS", "events.retention_days", "0"]],
  ] as const)("environment %p", (env, parts) => {
    const message = failure(() => loadConfig({ env }));
    for (const part of parts) expect(message).toContain(part);
  });

  test("flag", () => {
    expect(failure(() => loadConfig({ env: {}, flags: { "http.listen": "nope" } }))).toContain(
      "the command line: http.listen",
    );
    expect(failure(() => loadConfig({ env: {}, flags: { "http.port": 1 } }))).toContain("unknown setting http.port");
  });

  test("F30 config check: all mistakes at once, with their lines", () => {
    const file = tomlFile('[http]\nlisten = 5\n\n# a comment\nlimt = 1\n[nonsense]\nx = 1\n[log]\nlevel = "loud"\n');
    const env = { VERK_HTTP__MAX_BODY_BYTES: "many", VERK_NOTHING: "1" };
    const message = failure(() => loadConfig({ file, env }));
    const lines = message.split("\n");
    expect(lines[0]).toBe("6 settings are wrong:");
    expect(lines.slice(1).sort()).toEqual([
      expect.stringContaining(`${file}:2: http.listen: `),
      expect.stringContaining(`${file}:5: unknown setting http.limt.`),
      expect.stringContaining(`${file}:6: unknown setting nonsense.`),
      expect.stringContaining(`${file}:9: log.level: `),
      expect.stringContaining(
        "the environment variable VERK_HTTP__MAX_BODY_BYTES: http.max_body_bytes: expected a number",
      ),
      expect.stringContaining("the environment: unknown setting VERK_NOTHING."),
    ]);
    const broken = tomlFile('[http]\nlisten = "127.0.0.1:1"\nmax_body_bytes = \n[log]\n');
    expect(failure(() => loadConfig({ file: broken, env: {} }))).toStartWith(`${broken}:3: `);
  });

  test("a missing configuration file", () => {
    expect(failure(() => loadConfig({ file: join(dir, "none.toml"), env: {} }))).toContain("no such file");
  });
});

test("reserved names under the prefix are not settings", () => {
  const env = {
    VERK_FAILPOINT: "*:1",
    VERK_INSPECT: "trainer",
    VERK_BINARY: "x",
    VERK_WORKER_ID: "1",
    VERK_CONFIG: "/x",
    PATH: "/bin",
  };
  expect(() => loadConfig({ env })).not.toThrow();
  expect(configFile(undefined, env)).toBe("/x");
  expect(configFile("/y", env)).toBe("/y");
});

test("the data directory and the master key have a default path without any setting", () => {
  const home = loadConfig({ env: { HOME: "/home/ada" } });
  expect(["/home/ada/.local/share/verk", "/var/lib/verk"]).toContain(home.data_dir);
  expect(home.secrets.master_key_file).toBe(join(home.data_dir, "master.key"));
  expect(loadConfig({ env: { VERK_DATA: "rel" } }).data_dir).toBe(join(process.cwd(), "rel"));
  expect(loadConfig({ env: { HOME: "/h", VERK_DATA_DIR: "~/x" } }).data_dir).toBe("/h/x");

  writeFileSync(join(dir, "master.key"), "");
  const credential = loadConfig({ env: { CREDENTIALS_DIRECTORY: dir, VERK_DATA: "/d" } });
  expect(credential.secrets.master_key_file).toBe(join(dir, "master.key"));
});

test("the port of detection alone differs from the port of both interfaces", () => {
  const withPort = (port: number) =>
    loadConfig({ env: {}, flags: { "http.listen": "[::1]:7071", "detect.port": port } });
  expect(failure(() => withPort(7071))).toContain("detect.port: expected another port than that of http.listen");
  expect(withPort(7072).detect.port).toBe(7072);
  expect(loadConfig({ env: {}, flags: { "http.listen": "127.0.0.1:0", "detect.port": 0 } }).detect.port).toBe(0);
});

test("the configuration is frozen to its last leaf", () => {
  const config = loadConfig({ env: {} });
  expect(() => Object.assign(config.http, { listen: "x" })).toThrow();
  expect(() => (config.network.allow as string[]).push("x")).toThrow();
});

test("the default file changes nothing unedited, and gives the defaults when uncommented", () => {
  const text = defaultToml();
  const plain = loadConfig({ env: {} });
  expect(loadConfig({ file: tomlFile(text), env: {} })).toEqual(plain);
  const active = text.replaceAll(/^#(\w+ = )/gm, "$1");
  expect(loadConfig({ file: tomlFile(active), env: {} })).toEqual(plain);
  expect(Object.keys(Bun.TOML.parse(active))).toEqual(Object.keys(SETTINGS));
});

test("the committed default file is the generated one", async () => {
  const committed = await Bun.file(join(import.meta.dir, "../../../config/default.toml")).text();
  expect(committed).toBe(defaultToml());
});

test("a secret setting is hidden in every list of settings and in its own error", () => {
  const tree = {
    s3: section("Storage.", { secret_key: secret(setting("builtin-secret", "Key.", () => z.string().min(8))) }),
  };
  const loaded = loadTree(tree, { env: { VERK_S3__SECRET_KEY: "hunter2hunter2" } });
  expect(loaded).toEqual({ s3: { secret_key: "hunter2hunter2" } });
  expect(JSON.stringify(redactTree(tree, loaded))).not.toContain("hunter2");
  expect(failure(() => loadTree(tree, { env: { VERK_S3__SECRET_KEY: "hunter2" } }))).not.toContain("hunter2");
  expect(renderToml(tree)).not.toContain("builtin-secret");
  expect(printConfig(loadConfig({ env: {} }))["http"]).toEqual(loadConfig({ env: {} }).http as never);
});
