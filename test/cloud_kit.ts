/**
 * A cloud for tests: shell scripts whose machines are files in a directory. `up` can also start a real sshd. The machines
 * know nothing of the server, as those of a real cloud.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

export type TestCloud = {
  file: string;
  /** Names of the machines that exist. */
  machines: () => string[];
  /** The calls of the commands, one line each: `up NAME`. */
  calls: () => string[];
  /** Runs inside `up` after the machine exists, and inside `down` before it ends. */
  set: (script: "up" | "down" | "list" | "before_up", text: string) => void;
};

type Settings = Record<string, string | number>;

/** `address`: what `up` prints; may use `$VERK_MACHINE`. */
export function testCloud(dir: string, settings: Settings = {}, address = "node@192.0.2.1"): TestCloud {
  const root = join(dir, "cloud");
  const at = join(root, "machines");
  mkdirSync(at, { recursive: true, mode: 0o755 });
  const file = join(root, "lab.toml");
  const hook = (name: string) => `if [ -f '${root}/${name}.sh' ]; then . '${root}/${name}.sh'; fi`;
  const call = (name: string) => `echo "${name} $VERK_MACHINE" >> '${root}/calls'`;
  const up = [call("up"), hook("before_up"), `echo here > "${at}/$VERK_MACHINE"`, hook("up"), `echo "${address}"`];
  const down = [call("down"), hook("down"), `rm -f "${at}/$VERK_MACHINE"`];
  const list = [hook("list"), `ls '${at}'`];
  const text = (lines: string[]) => `'''\nset -e\n${lines.join("\n")}\n'''`;
  const all = { idle_minutes: 10, rate_usd_per_hour: 36, ...settings };
  const lines = Object.entries(all).map(([name, value]) => `${name} = ${JSON.stringify(value)}`);
  const commands = [`up = ${text(up)}`, `down = ${text(down)}`, `list = ${text(list)}`];
  writeFileSync(file, [...lines, ...commands, ""].join("\n"), { mode: 0o600 });
  chmodSync(root, 0o755);
  const calls = join(root, "calls");
  return {
    file,
    machines: () => readdirSync(at).sort(),
    calls: () => (existsSync(calls) ? readFileSync(calls, "utf8").trim().split("\n") : []),
    set: (script, body) => writeFileSync(join(root, `${script}.sh`), body),
  };
}
