import { createHash } from "node:crypto";
import { z } from "zod";
import { microsOf, usdOf } from "../../../lib/money.ts";
import { DateTime, isoOrNull, Label, later } from "../../../lib/schema.ts";
import { isoTime } from "../../../lib/time.ts";
import { SlurmSettings } from "../../../platform/providers/slurm_text.ts";
import { ADDED_KINDS, type RegionRow } from "./table.ts";

export const Region = later(() =>
  z
    .object({
      object: z.literal("region"),
      id: z.string(),
      name: z.string(),
      provider: z.string().describe("local, ssh, slurm, or the name of a cloud"),
      available: z.boolean().describe("It accepts work now"),
      reason: z.string().nullable().describe("Why it accepts no work; null if it does"),
      gpu_types: z.array(z.string()).describe("Types of its GPUs; empty if it has only CPUs"),
      rate_usd_per_hour: z
        .number()
        .nullable()
        .describe("Price of one device; null: no price, or that of the price file"),
      ssh: z
        .object({
          address: z.string(),
          port: z.int(),
          user: z.string(),
          ssh_key_id: z.string(),
          work_dir: z.string(),
          host_key: z.string(),
          host_key_fingerprint: z.string().describe("SHA256:…, as `ssh-keygen -lf` prints it"),
        })
        .nullable()
        .describe(
          "Null for this machine, for a cluster whose login node this machine is, and for a cloud without a machine",
        ),
      slurm: SlurmSettings.nullable().describe("How jobs are submitted there; null for other kinds"),
      hardware: z
        .object({
          cpus: z.int(),
          memory_bytes: z.int(),
          disk_free_bytes: z.int().describe("On the disk of the work directory"),
          load: z.number().nullable().describe("Processes that wanted a processor, mean of a minute; null: unknown"),
          gpus: z.array(
            z.object({
              type: z.string(),
              memory_bytes: z.int().describe("0: unknown"),
              used_bytes: z.int().nullable().describe("By all programs; null: unknown"),
              utilization_percent: z.number().nullable(),
            }),
          ),
        })
        .nullable()
        .describe(
          "As it last answered. Of a cluster: its largest node. Null for this machine, whose devices the GPU routes have",
        ),
      seen_at: DateTime.nullable().describe("When it last answered; null if never, and for this machine"),
      created_at: DateTime.nullable().describe("Null for this machine"),
    })
    .meta({ id: "Region" }),
);
export type Region = z.infer<typeof Region>;

export const HOST_KEY = /^(ssh-ed25519|ecdsa-sha2-nistp(256|384|521)|ssh-rsa) [A-Za-z0-9+/]{40,2000}={0,2}$/;

type RegionAddress = Partial<Record<"address" | "user" | "ssh_key_id", string | undefined>> & { kind: string };

/** A machine has an address, and an address needs a user and a key. Only a cluster can be the one of this machine. */
const withAddress = <S extends z.ZodType<RegionAddress>>(schema: S): S =>
  schema
    .refine(({ kind, address }) => address !== undefined || kind === "slurm", {
      path: ["address"],
      message: "is missing",
    })
    .refine(({ address, user }) => address === undefined || user !== undefined, {
      path: ["user"],
      message: "is missing",
    })
    .refine(({ address, ssh_key_id: key }) => address === undefined || key !== undefined, {
      path: ["ssh_key_id"],
      message: "is missing",
    });

export const CreateRegion = later(() =>
  withAddress(
    z.object({
      name: Label(100),
      kind: z.enum(ADDED_KINDS).describe("slurm: the address is that of a login node"),
      address: z
        .string()
        .regex(/^[A-Za-z0-9][A-Za-z0-9.:-]{0,252}$/, "must be a host name or an IP address")
        .optional()
        .describe(
          "Must be allowed by network.allow or network.allow_private if it is not public. Without it, this machine is the login node of a cluster",
        ),
      port: z.int().min(1).max(65_535).default(22),
      user: z
        .string()
        .regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/, "must be a user name")
        .optional()
        .describe("Required with an address"),
      ssh_key_id: z
        .string()
        .min(1)
        .max(80)
        .optional()
        .describe("An SSH key of this workspace (ssh_…). Required with an address"),
      work_dir: Label(300)
        .refine((path) => !/^[-~]/.test(path), "must be a path: a relative one is below the home of the user")
        .default("verk")
        .describe("Directory on the node; a relative one is below the home of the user"),
      host_key: z
        .string()
        .trim()
        .regex(
          HOST_KEY,
          "must be a type and a key in base64, as in /etc/ssh/ssh_host_ed25519_key.pub without its comment",
        )
        .optional()
        .describe("The key of the node. Without it, the node is asked once and its answer is pinned"),
      rate_usd_per_hour: z.number().min(0).max(1e6).nullable().default(null).describe("Price of one device"),
      slurm: SlurmSettings.optional().describe("Only for kind slurm"),
    }),
  )
    .refine(({ kind, slurm }) => slurm === undefined || kind === "slurm", {
      path: ["slurm"],
      message: "is only for regions of kind slurm",
    })
    .meta({ id: "CreateRegion" }),
);
export type CreateRegion = z.infer<typeof CreateRegion>;

export const rateOf = ({ rate_usd_per_hour: usd }: CreateRegion) => (usd === null ? null : microsOf(usd));

export const CheckRegion = later(() => {
  const { kind, address, port, user, ssh_key_id, work_dir, host_key } = CreateRegion.unwrap().shape;
  return withAddress(z.object({ kind, address, port, user, ssh_key_id, work_dir, host_key })).meta({
    id: "CheckRegion",
  });
});
export type CheckRegion = z.infer<typeof CheckRegion>;

const STEPS = ["address", "host_key", "sign_in", "work_dir", "slurm", "devices", "program"] as const;

const CheckStep = later(() =>
  z.object({
    name: z.enum(STEPS),
    state: z.enum(["ok", "failed", "skipped"]),
    message: z.string(),
    fix: z.string().nullable().describe("What to do about a failure"),
    ms: z.int(),
  }),
);
export type CheckStep = z.infer<typeof CheckStep>;

export const RegionCheck = later(() =>
  z
    .object({
      object: z.literal("region_check"),
      ok: z.boolean(),
      host_key: z.string().nullable().describe("The key of the node. Send it as `host_key` to pin it"),
      host_key_fingerprint: z.string().nullable(),
      steps: z.array(CheckStep.unwrap()),
    })
    .meta({ id: "RegionCheck" }),
);
export type RegionCheck = z.infer<typeof RegionCheck>;

/** The form of `ssh-keygen -lf`. */
export const fingerprintOf = (hostKey: string) =>
  `SHA256:${createHash("sha256")
    .update(Buffer.from(hostKey.split(" ")[1] ?? "", "base64"))
    .digest("base64")
    .replace(/=+$/, "")}`;

/** This machine is the login node of the region. */
export const isHere = ({ kind, address }: Pick<RegionRow, "kind" | "address">) => kind === "slurm" && address === "";

/** The name of a cloud stands for the commands behind it. */
export const providerName = ({ kind, name }: Pick<RegionRow, "kind" | "name">) => (kind === "exec" ? name : kind);

const presentInfo = (info: RegionRow["info"]): Region["hardware"] =>
  info && {
    cpus: info.cpus,
    memory_bytes: info.memory_bytes,
    disk_free_bytes: info.free_bytes,
    load: info.load ?? null,
    gpus: info.gpus.map(({ type, memory_bytes, used_bytes = null, utilization_percent = null }) => ({
      type,
      memory_bytes,
      used_bytes,
      utilization_percent,
    })),
  };

export const present = (row: RegionRow): Region => ({
  object: "region",
  id: row.id,
  name: row.name,
  provider: providerName(row),
  available: row.fault === null,
  reason: row.fault,
  gpu_types: [...new Set((row.info?.gpus ?? []).map(({ type }) => type))].sort(),
  rate_usd_per_hour: row.rateMicros === null ? null : usdOf(row.rateMicros),
  ssh:
    row.address === ""
      ? null
      : {
          address: row.address,
          port: row.port,
          user: row.user,
          ssh_key_id: row.sshKeyId,
          work_dir: row.workDir,
          host_key: row.hostKey,
          host_key_fingerprint: fingerprintOf(row.hostKey),
        },
  slurm: row.slurm,
  hardware: presentInfo(row.info),
  seen_at: isoOrNull(row.seenAt),
  created_at: isoTime(row.createdAt),
});
