// tier: all (attacks on the whole program)
import { afterAll, describe, expect, test } from "bun:test";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { exposedSecrets } from "../../src/platform/config/config.ts";
import { startBinary } from "../binary.ts";
import { program } from "../cli.ts";
import { tempDir } from "../harness.ts";

const dir = tempDir();
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const TOKEN = "hf_config_secret";
let made = 0;
function fileOf(text: string, mode: number) {
  const file = join(dir, `config${made++}.toml`);
  writeFileSync(file, text);
  chmodSync(file, mode);
  return file;
}
const SECRET = `[hub]\ntoken = "${TOKEN}"\n`;
const run = async (...args: string[]) => {
  const child = Bun.spawn([...program(), ...args, "--data", join(dir, "data")], {
    env: { HOME: dir, PATH: process.env["PATH"] ?? "" },
    stdout: "pipe",
    stderr: "pipe",
  });
  const [out, err] = [await new Response(child.stdout).text(), await new Response(child.stderr).text()];
  return { out, err, code: await child.exited };
};

describe("L8: a configuration file with a secret that every user of the machine can read", () => {
  test.each([
    ["is exposed", SECRET, 0o644, ["hub.token"]],
    ["is exposed to writing too", SECRET, 0o602, ["hub.token"]],
    [
      "names each secret",
      `${SECRET}[storage]\ns3_secret_access_key = "x"\n`,
      0o604,
      ["hub.token", "storage.s3_secret_access_key"],
    ],
    ["is not, for the group alone", SECRET, 0o640, undefined],
    ["is not, for its owner alone", SECRET, 0o600, undefined],
    ["is not, without a secret", `[hub]\nendpoint = "https://hub.example"\n`, 0o644, undefined],
    ["is not, with an empty one", `[hub]\ntoken = ""\n`, 0o644, undefined],
  ])("%s", (_what, text, mode, settings) => expect(exposedSecrets(fileOf(text, mode))?.settings).toEqual(settings!));

  test("verk config check warns and says what to do, without the secret", async () => {
    const file = fileOf(SECRET, 0o644);
    const { err, code } = await run("config", "check", "--config", file);
    expect(code).toBe(0);
    expect(err).toContain(`Warning: ${file} has mode 0644, so every user of this machine can read hub.token`);
    expect(err).toContain("chmod 640");
    expect(err).not.toContain(TOKEN);
    const json = await run("config", "check", "--json", "--config", file);
    expect(JSON.parse(json.out)).toMatchObject({ ok: true, warnings: [expect.stringContaining("0644")] });
    const good = await run("config", "check", "--json", "--config", fileOf(SECRET, 0o640));
    expect(JSON.parse(good.out)).toMatchObject({ ok: true, warnings: [] });
  });

  test("verk doctor reports the file as a finding", async () => {
    const finding = async (mode: number) => {
      const { out } = await run("doctor", "--json", "--config", fileOf(SECRET, mode));
      return JSON.parse(out).checks.find((each: { check: string }) => each.check === "configuration");
    };
    expect(await finding(0o644)).toMatchObject({ status: "warn", detail: expect.stringContaining("hub.token") });
    expect(await finding(0o600)).toMatchObject({ status: "ok" });
  }, 120_000);

  test("verk serve warns once", async () => {
    const server = await startBinary({ args: ["--config", fileOf(SECRET, 0o644)] });
    await server.kill("SIGTERM");
    const { stderr } = await server.exited;
    expect(stderr.match(/Warning: .* has mode 0644/g)).toHaveLength(1);
    expect(stderr).not.toContain(TOKEN);
    rmSync(server.dir, { recursive: true, force: true });
  });
});
