import { readFileSync } from "node:fs";
import { UsageError } from "../../lib/errors.ts";
import { parseDuration } from "../../lib/time.ts";
import { MINUTE_MS } from "../../lib/units.ts";
import type { SshKey } from "../../resources/access/ssh_keys/schema.ts";
import type { Machine } from "../../resources/machines/clouds/schema.ts";
import type { Region } from "../../resources/machines/regions/schema.ts";
import { command, EXIT, type Group, wholeOf } from "../args.ts";
import type { Client } from "../client.ts";
import { connect } from "../connect.ts";
import { wholeId } from "../lists.ts";
import { note, print, printJson } from "../output.ts";
import { COMMON_FLAGS, itemsOf, listCommand, removeCommand } from "../resource_commands.ts";

const PATH = "/v1/regions";

const list = listCommand({
  summary: "List the regions: this machine and the others where jobs run",
  examples: ["verk regions list", "verk regions list --json"],
  path: PATH,
  columns: {
    ID: ({ id }: Region) => id,
    NAME: ({ name }) => name,
    PROVIDER: ({ provider }) => provider,
    DEVICES: ({ gpu_types }) => gpu_types.join(", ") || "cpu",
    "USD/HOUR": priceOf,
    STATE: ({ available, reason }) => (available ? "available" : (reason ?? "not available")),
  },
  empty: "No regions.",
  hasShortIds: true,
});

/** The price of this machine depends on the device: `verk status` shows it. */
function priceOf({ id, rate_usd_per_hour: rate }: Region): string {
  if (rate !== null) return String(rate);
  return id === "local" ? "-" : "no price";
}

const machines = listCommand({
  summary: "List the machines that clouds made, with their state and cost",
  examples: ["verk regions machines", "verk regions machines --json"],
  path: "/v1/machines",
  columns: {
    ID: ({ id }: Machine) => id,
    NAME: ({ name }) => name,
    STATUS: ({ status, reason }) => (reason === null ? status : `${status}: ${reason}`),
    "USD/HOUR": ({ rate_usd_per_hour: rate }) => String(rate),
    USD: ({ cost_usd: cost }) => cost.toFixed(4),
    CREATED: ({ created_at: at }) => at,
  },
  empty: "No machines. The operator sets up clouds: see docs/clouds.md.",
  hasShortIds: true,
});

const HOST = /^([^@\s]+)@(\[[0-9A-Fa-f:.]+\]|[^:\s]+)(?::(\d{1,5}))?$/;

function hostOf(text: string | undefined) {
  const [, user, host = "", port] = HOST.exec(text ?? "") ?? [];
  if (user === undefined)
    throw new UsageError(`--host: expected USER@ADDRESS or USER@ADDRESS:PORT, not ${JSON.stringify(text ?? "")}`);
  return { user, address: host.replace(/^\[|\]$/g, ""), port: wholeOf("host", port) };
}

function keyFiles(path: string) {
  const read = (file: string) => {
    try {
      return readFileSync(file, "utf8");
    } catch (cause) {
      throw new UsageError(`--identity: ${file} cannot be read`, 1, { cause });
    }
  };
  return { private_key: read(path), public_key: read(`${path}.pub`).trim() };
}

const add = command({
  summary: "Add a machine that is reached over SSH; its host key is pinned",
  takes: ["name"],
  flags: {
    ...COMMON_FLAGS,
    host: { type: "string", value: "USER@ADDRESS[:PORT]", doc: "User and address of the machine" },
    identity: {
      type: "string",
      value: "FILE",
      doc: "Private key to use there; the public key is FILE.pub. It is stored as an SSH key with the region's name",
    },
    key: { type: "string", value: "ID", doc: "An SSH key that the server has (ssh_…), instead of --identity" },
    "host-key": { type: "string", value: "KEY", doc: "Host key to pin: type and base64 (default: ask the machine)" },
    "work-dir": { type: "string", value: "DIR", doc: "Directory there (default: verk in the home of the user)" },
    rate: { type: "string", value: "USD", doc: "Price of one device for an hour (default: no price)" },
    slurm: { type: "boolean", doc: "The machine is a login node of a cluster with Slurm" },
    partition: { type: "string", value: "NAME", doc: "Partition for --slurm (default: that of the cluster)" },
    account: { type: "string", value: "NAME", doc: "Account for --slurm" },
    qos: { type: "string", value: "NAME", doc: "Quality of service for --slurm" },
    constraint: { type: "string", value: "FEATURE", doc: "Feature that a node must have, for --slurm" },
    "time-limit": {
      type: "string",
      value: "TIME",
      doc: "Time limit of one Slurm job, such as 4h; a longer run goes on in the next",
    },
    cpus: { type: "string", value: "N", doc: "Processors of a job, for --slurm; a custom job may ask for less" },
    memory: {
      type: "string",
      value: "MIB",
      doc: "Memory of a job in MiB, for --slurm; a custom job asks for its own, up to this",
    },
    "max-jobs": {
      type: "string",
      value: "N",
      doc: "Jobs that are submitted at the same time, for --slurm (default: 8)",
    },
  },
  fields: {
    address: "--host",
    user: "--host",
    port: "--host",
    ssh_key_id: "--key",
    host_key: "--host-key",
    work_dir: "--work-dir",
    rate_usd_per_hour: "--rate",
    public_key: "--identity",
    private_key: "--identity",
    "slurm/time_limit_minutes": "--time-limit",
    "slurm/memory_mib": "--memory",
    "slurm/max_jobs": "--max-jobs",
    "slurm/*": "--*",
  },
  examples: [
    "verk regions add lab --host verk@10.0.0.7 --identity ~/.ssh/id_ed25519",
    "verk regions add big --host verk@gpu.example.com:2222 --key ssh_01j9… --rate 2.5",
    "verk regions add cluster --slurm --host me@login.example.com --identity ~/.ssh/id_ed25519 --partition gpu --time-limit 4h",
  ],
  exits: { 1: "failed: the machine was not reached, its address is not allowed, or the name is taken" },
  async run(flags, name = "") {
    const { json, host, identity, key, "host-key": hostKey, "work-dir": workDir, rate } = flags;
    const isHere = flags.slurm && host === undefined; // the server checks that it is a login node
    if (!isHere && (identity === undefined) === (key === undefined))
      throw new UsageError("regions add: give --identity FILE or --key ID, one of them");
    const fields = {
      name,
      kind: flags.slurm ? "slurm" : "ssh",
      ...(isHere ? {} : hostOf(host)),
      host_key: hostKey,
      work_dir: workDir,
      slurm: slurmOf(flags),
      rate_usd_per_hour: rateOf(rate),
    };
    const files = identity === undefined ? undefined : keyFiles(identity);
    const { client } = await connect(flags);
    const ssh_key_id = files ? (await client.call<SshKey>("POST", "/v1/ssh_keys", { name, ...files })).body.id : key;
    const { body } = await client.call<Region>("POST", PATH, { ...fields, ssh_key_id }).catch(async (error) => {
      if (files) await client.call("DELETE", `/v1/ssh_keys/${ssh_key_id}`);
      throw error;
    });
    if (json) printJson(body);
    else {
      print(body.id);
      if (body.ssh) {
        note(`Pinned the host key ${body.ssh.host_key_fingerprint}. Compare it with the one that the machine shows:`);
        note("  ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub");
      }
    }
    return EXIT.ok;
  },
});

type SlurmFlags = Partial<Record<(typeof SLURM_FLAGS)[number], string | undefined>> & { slurm: boolean };
const SLURM_FLAGS = ["partition", "account", "qos", "constraint", "time-limit", "cpus", "memory", "max-jobs"] as const;

function slurmOf(flags: SlurmFlags) {
  const stray = SLURM_FLAGS.find((name) => flags[name] !== undefined);
  if (!flags.slurm && stray !== undefined) throw new UsageError(`--${stray}: is only for --slurm`);
  if (!flags.slurm) return undefined;
  const { partition, account, qos, constraint } = flags;
  const time = flags["time-limit"];
  const ms = time === undefined ? undefined : parseDuration(time);
  if (time !== undefined && ms === undefined)
    throw new UsageError(`--time-limit: expected a duration such as 30m or 4h, not ${JSON.stringify(time)}`);
  return {
    partition,
    account,
    qos,
    constraint,
    time_limit_minutes: ms === undefined ? undefined : Math.ceil(ms / MINUTE_MS),
    cpus: wholeOf("cpus", flags.cpus),
    memory_mib: wholeOf("memory", flags.memory),
    max_jobs: wholeOf("max-jobs", flags["max-jobs"]),
  };
}

function rateOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new UsageError(`--rate: expected a number, not ${JSON.stringify(text)}`);
  return value;
}

async function mustFind(client: Client, target: string): Promise<Region> {
  const all = await itemsOf<Region>(client, PATH);
  const id = await wholeId(target, async () => all);
  const region = all.find((each) => each.id === id || each.name === target);
  if (region) return region;
  throw new UsageError(`There is no region ${JSON.stringify(target)}. \`verk regions list\` shows them.`, 1);
}

const remove = removeCommand({
  summary: "Remove a region; an SSH key that only it used stays",
  examples: ["verk regions remove lab"],
  exits: { 1: "failed: there is no such region, or a job runs there" },
  takes: "region",
  path: PATH,
  find: mustFind,
  says: ({ id, name }) => `${name} (${id}) is removed.`,
});

export const regions: Group = {
  summary: "Regions: other machines where jobs run",
  subcommands: { add, list, machines, remove },
};
