/**
 * Files of clouds (`clouds.files`): one for each, named after the cloud. Its commands run with the rights of the server
 * and outside every sandbox, so only the operator can set them: no route of the API reads or writes these files.
 */
import { statSync } from "node:fs";
import { basename, dirname, extname } from "node:path";
import { z } from "zod";
import { type Config, ConfigError, loadTree } from "./config.ts";
import { setting, type ValuesOf } from "./section.ts";

const COMMAND = () => z.string().max(20_000);

export const CLOUD = {
  up: setting("", "Shell command that makes the machine $VERK_MACHINE and prints its SSH address.", COMMAND),
  down: setting("", "Shell command that ends the machine $VERK_MACHINE. It succeeds if there is none.", COMMAND),
  list: setting("", "Shell command that prints the names of the machines that exist, one a line.", COMMAND),
  user: setting("root", "User on a machine if `up` prints an address without one.", () =>
    z.string().regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/, "expected a user name"),
  ),
  work_dir: setting("verk", "Directory on a machine; a relative one is below the home of the user.", () =>
    z.string().regex(/^[^-~\r\n][^\r\n]{0,299}$/, "expected a path"),
  ),
  gpu_type: setting("cpu", "Type of its devices, such as H100; cpu = none.", () => z.string().min(1).max(64)),
  gpu_count: setting(1, "Devices of one machine.", () => z.int().min(1).max(64)),
  memory_gib: setting(0, "Memory of one device in GiB; 0 = unknown.", () => z.number().min(0).max(1_000_000)),
  rate_usd_per_hour: setting(-1, "Price of one device for an hour.", () => z.number().min(0).max(1e6)),
  idle_minutes: setting(10, "A machine without work is ended after this long; 0 = at once.", () =>
    z.number().min(0).max(10_080),
  ),
  max_machines: setting(4, "Machines that exist at the same time, of all workspaces together.", () =>
    z.int().min(1).max(1_000),
  ),
  up_minutes: setting(20, "Longest time until a new machine can be reached.", () => z.number().min(0.01).max(240)),
  down_minutes: setting(10, "Longest time of `down` and of `list`.", () => z.number().min(0.01).max(240)),
  workspaces: setting([], "Workspaces that may use the cloud, by name or id; empty = all.", () =>
    z.array(z.string().min(1).max(200)),
  ),
};

/** `name`: that of the file, and the provider of its regions. `file`: its absolute path. */
export type Cloud = Readonly<ValuesOf<typeof CLOUD>> & { readonly name: string; readonly file: string };

export const CLOUD_NAME = /^[a-z][a-z0-9-]{0,19}$/;
const TAKEN = ["local", "ssh", "slurm", "exec"];

const RULES = (["up", "down", "list"] as const).map((path) => ({
  path,
  message: "expected a command",
  holds: (values: ValuesOf<typeof CLOUD>) => values[path].trim() !== "",
}));
const PRICE = {
  path: "rate_usd_per_hour",
  message: "expected the price of one device for an hour; 0 = free",
  holds: (values: ValuesOf<typeof CLOUD>) => values.rate_usd_per_hour >= 0,
};

/** Throws ConfigError with the mistakes of all files. */
export function loadClouds({ clouds }: Pick<Config, "clouds">): Cloud[] {
  const mistakes: string[] = [];
  const loaded = clouds.files.flatMap((file) => {
    const name = basename(file, extname(file));
    const fault = faultOf(file, name);
    if (fault !== undefined) {
      mistakes.push(`clouds.files: ${fault}`);
      return [];
    }
    try {
      return [{ ...loadTree(CLOUD, { file }, [...RULES, PRICE]), name, file }];
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error;
      mistakes.push(...error.mistakes);
      return [];
    }
  });
  const names = loaded.map(({ name }) => name);
  const twice = names.find((name, i) => names.indexOf(name) !== i);
  if (twice !== undefined) mistakes.push(`clouds.files: two files are named ${twice}: rename one`);
  if (mistakes.length > 0) throw new ConfigError(mistakes);
  return loaded;
}

/** A file that others can change would let them run commands as the server. */
function faultOf(file: string, name: string): string | undefined {
  if (!CLOUD_NAME.test(name) || TAKEN.includes(name))
    return `${file}: the name of the file is the name of the cloud: expected a lower-case word such as aws.toml, not one of ${TAKEN.join(", ")}`;
  for (const path of [file, dirname(file)]) {
    const stat = statSync(path, { throwIfNoEntry: false });
    if (stat === undefined) return `${path}: there is no such file`;
    const isSticky = (stat.mode & 0o1000) !== 0; // others cannot replace the file in such a folder
    if ((stat.mode & 0o022) !== 0 && !(path !== file && isSticky))
      return `${path} can be changed by other users of this machine, and its commands run as the server: chmod go-w ${path}`;
  }
  return undefined;
}
