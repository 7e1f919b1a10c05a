import { objectConnector, unusable } from "./objects/connector.ts";
import { byBytes } from "./objects/glob.ts";
import { type Commit, type Hub, openFiles, readCommit, readReadme } from "./objects/hub.ts";
import { layoutOf, ofOneFormat } from "./objects/hub_splits.ts";
import type { StoredObject } from "./objects/store.ts";
import { credentialOf } from "./objects/uri.ts";
import { type Open, SourceError } from "./types.ts";

type Selection = { config?: string | undefined; split?: string | undefined };

/**
 * Reads `hub_dataset`: owner/name. The commit of `hub_config.revision` (default main) is fixed when the reading begins.
 */
export const open: Open = ({ source, credentials, dialer, limits, hubEndpoint }) => {
  const dataset = source.hub_dataset ?? "";
  if (!/^[A-Za-z0-9_][\w.-]*(\/[A-Za-z0-9_][\w.-]*)?$/.test(dataset))
    throw unusable("hub_dataset must be a name such as owner/name", "/hub_dataset");
  const { revision = "main", config, split } = source.hub_config ?? {};
  const token = credentialOf(credentials, "token", "access_token");
  const hub: Hub = { endpoint: hubEndpoint.replace(/\/+$/, ""), dataset, token, dialer };
  let commit: Commit | undefined;
  return objectConnector({
    async objects(signal) {
      const now = await readCommit(hub, revision, signal);
      commit = now;
      return chosen(now, await readReadme(hub, now, signal), dataset, { config, split });
    },
    nameOf: ({ key }) => `hf://datasets/${dataset}/${key}`,
    open: openFiles(hub, () => commit?.sha ?? revision),
    limits,
  });
};

function chosen({ files }: Commit, readme: string, dataset: string, wanted: Selection): StoredObject[] {
  const paths = files.map(({ key }) => key).sort(byBytes);
  const { configs, preferred } = layoutOf(paths, readme);
  const config = wanted.config ?? preferred;
  if (config === undefined)
    throw unusable(
      `${dataset} has several configurations. Choose one of ${listed(configs.keys())}`,
      "/hub_config/config",
    );
  const splits = configs.get(config)?.();
  if (!splits)
    throw missing(
      `${dataset} has no configuration ${config}. Choose one of ${listed(configs.keys())}`,
      "/hub_config/config",
    );
  const names = [...splits.keys()];
  const split = wanted.split ?? (splits.has("train") || names.length !== 1 ? "train" : names[0]);
  const mine = splits.get(split ?? "");
  if (!mine) throw missing(`${dataset} has no split ${split}. Choose one of ${listed(names)}`, "/hub_config/split");
  const readable = new Set(ofOneFormat(mine));
  if (readable.size === 0)
    throw missing(`${dataset} has no JSONL, CSV or Parquet file in ${split}${others(mine, paths)}`);
  return files.filter(({ key }) => readable.has(key)).sort((a, b) => byBytes(a.key, b.key));
}

const missing = (message: string, param = "/hub_dataset") => new SourceError("not_found", message, param);

const listed = (names: Iterable<string>) => {
  const all = [...names];
  return all.slice(0, 20).join(", ") + (all.length > 20 ? ` and ${all.length - 20} more` : "") || "none";
};

/** Lists the file types that it has instead. */
function others(mine: readonly string[], all: readonly string[]): string {
  const kinds = new Set(
    (mine.length > 0 ? mine : all).map((path) => /\.[A-Za-z0-9]{1,10}$/.exec(path)?.[0] ?? path.slice(-20)),
  );
  return kinds.size === 0 ? "" : ` (it has ${listed(kinds)})`;
}
