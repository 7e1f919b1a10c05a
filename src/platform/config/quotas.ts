/** Quotas: one value for all workspaces, and others for single ones. */
import { z } from "zod";
import { live, section, setting } from "./section.ts";

const NAMES = [
  "dataset_bytes",
  "model_bytes",
  "code_artifact_bytes",
  "checkpoint_bytes",
  "file_bytes",
  "chat_bytes",
  "prefix_bytes",
  "volume_bytes",
  "dataset_rows",
  "running_jobs",
  "gpu_hours",
  "requests_per_minute",
  "regions",
] as const;
export type QuotaName = (typeof NAMES)[number];

const EXPECTED = `expected the id of a workspace and a quota, such as "ws_01j9… gpu_hours=200"; quotas: ${NAMES.join(", ")}`;

type OwnQuota = { workspaceId: string; name: QuotaName; most: number };

function parseQuota(text: string): OwnQuota | undefined {
  const [, workspaceId = "", word = "", number = ""] = /^(ws_\w+) ([a-z_]+)=(\d+(?:\.\d+)?)$/.exec(text) ?? [];
  const name = NAMES.find((each) => each === word);
  const isWhole = !number.includes(".") || name === "gpu_hours";
  return name && isWhole ? { workspaceId, name, most: Number(number) } : undefined;
}

const quota = (what: string) => setting(0, `${what} of one workspace, in bytes; 0 = no limit.`, () => z.int().min(0));

export const quotas = section("Limits of one workspace; volumes.quota_bytes is the limit for volumes.", {
  dataset_bytes: live(quota("Datasets")),
  model_bytes: live(quota("Models that were uploaded, pulled or trained")),
  code_artifact_bytes: live(quota("Code artifacts")),
  checkpoint_bytes: live(quota("Checkpoints and exports of training jobs")),
  file_bytes: live(quota("Files of clients that were written for OpenAI")),
  chat_bytes: live(quota("Conversations, stored responses and stored chat completions")),
  prefix_bytes: live(quota("Beginnings of prompts that replicas keep on the disk, within serving.prefix_cache_bytes,")),
  dataset_rows: live(setting(0, "Rows of all datasets of one workspace; 0 = no limit.", () => z.int().min(0))),
  running_jobs: live(
    setting(0, "Training jobs of one workspace that run at once; further ones wait; 0 = no limit.", () =>
      z.int().min(0),
    ),
  ),
  gpu_hours: live(
    setting(0, "GPU hours of one workspace in a month (UTC); then no job is created or started; 0 = no limit.", () =>
      z.number().min(0),
    ),
  ),
  requests_per_minute: setting(0, "Requests of one workspace in a minute, with all its keys; 0 = no limit.", () =>
    z.int().min(0),
  ),
  regions: live(
    setting(32, "Regions of one workspace. Each is asked for its hardware every minute; 0 = no limit.", () =>
      z.int().min(0),
    ),
  ),
  workspaces: setting([], "Quotas of single workspaces, by id, instead of those above; 0 = no limit.", () =>
    z.array(z.string().refine((text) => parseQuota(text) !== undefined, EXPECTED)),
  ),
});

type Settings = {
  quotas: Readonly<Record<Exclude<QuotaName, "volume_bytes">, number>> & { readonly workspaces: readonly string[] };
  volumes: { readonly quota_bytes: number };
};

/** Workspaces with a value of their own. The last entry counts. */
export const ownQuotas = ({ quotas: { workspaces } }: Pick<Settings, "quotas">, name: QuotaName): Map<string, number> =>
  new Map(
    workspaces
      .map(parseQuota)
      .filter((quota) => quota?.name === name)
      .map((quota) => [quota?.workspaceId ?? "", quota?.most ?? 0]),
  );

/** The limit of a workspace, and the setting to name in a message. 0: no limit. */
export function quotaOf(config: Settings, workspaceId: string, name: QuotaName): { most: number; setting: string } {
  const most = config.quotas.workspaces.length === 0 ? undefined : ownQuotas(config, name).get(workspaceId);
  if (most !== undefined) return { most, setting: "quotas.workspaces" };
  if (name === "volume_bytes") return { most: config.volumes.quota_bytes, setting: "volumes.quota_bytes" };
  return { most: config.quotas[name], setting: `quotas.${name}` };
}
