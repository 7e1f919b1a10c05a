/** Reaches the node of a region. Every connection goes through the network guard and checks the pinned host key. */
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import type { Ctx } from "../../../context.ts";
import { DialError, networkPolicy, resolveChecked } from "../../../platform/network/address.ts";
import { directLink, HOST_ALIAS, type Link, sshLink } from "../../../platform/providers/link.ts";
import { NodeProvider } from "../../../platform/providers/node_provider.ts";
import { SlurmProvider } from "../../../platform/providers/slurm_provider.ts";
import { NodeError, Unreachable } from "../../../platform/providers/types.ts";
import * as sshKeys from "../../access/ssh_keys/service.ts";
import { privateKey } from "../clouds/key.ts";
import type { RegionProvider } from "./live.ts";
import { isHere, providerName } from "./schema.ts";
import type { RegionRow } from "./table.ts";

/** Throws NodeError if this server cannot use any node. */
export function providerOf(ctx: Ctx, row: RegionRow): RegionProvider {
  const { providers, executable } = ctx.state.regions;
  if (row.kind === "exec" && row.address === "") throw new NodeError(`${row.name} has no machine now`);
  const cached = providers.get(row.id);
  if (cached) return cached;
  if (executable === undefined)
    throw new NodeError("this server runs from its source: build the executable, and serve with it");
  const options = {
    region: row.id,
    kind: providerName(row),
    executable,
    rateMicros: row.rateMicros,
    ...nodeOf(ctx, row),
  };
  const provider = row.slurm ? new SlurmProvider(options, row.slurm) : new NodeProvider(options);
  providers.set(row.id, provider);
  return provider;
}

type Node = Pick<RegionRow, "workspaceId" | "kind" | "address" | "port" | "user" | "sshKeyId" | "hostKey">;

/** For commands of a check, before the region is stored. */
export const linkTo = (ctx: Ctx, node: Node): Link => (isHere(node) ? directLink(hereDir(ctx)) : remoteLink(ctx, node));

/** On this machine, the operator chooses the directory: a caller must not reach other files of the server's user. */
function nodeOf(ctx: Ctx, row: RegionRow): { link: Link; root: string } {
  if (!isHere(row)) return { link: remoteLink(ctx, row), root: row.workDir };
  const dir = hereDir(ctx);
  return { link: directLink(dir), root: join(dir, row.id) };
}

function hereDir(ctx: Ctx): string {
  const { slurm_work_dir: dir } = ctx.config.training;
  if (dir === "") throw new NodeError("this machine is no login node any more: training.slurm_work_dir is empty");
  mkdirSync(dir, { recursive: true });
  return dir;
}

const remoteLink = (ctx: Ctx, row: Node): Link =>
  sshLink({
    address: () => addressOf(ctx, row.address),
    port: row.port,
    user: row.user,
    knownHosts: `${HOST_ALIAS} ${row.hostKey}\n`,
    privateKey: () =>
      row.kind === "exec"
        ? privateKey(ctx.config.data_dir)
        : sshKeys.revealPrivateKey(ctx, row.workspaceId, row.sshKeyId),
    dir: keyDir(ctx),
  });

/** The guard judges the name again at each connection, because its owner may change it. */
export async function addressOf(ctx: Pick<Ctx, "config">, host: string): Promise<string> {
  try {
    return (await resolveChecked(host, networkPolicy(ctx.config.network)))[0];
  } catch (error) {
    if (error instanceof DialError) throw new Unreachable(error.message);
    throw error;
  }
}

/** Emptied once in each process: a killed server may have left a key there. */
function keyDir(ctx: Ctx): string {
  const { regions } = ctx.state;
  if (regions.keyDir !== undefined) return regions.keyDir;
  const dir = join(ctx.config.data_dir, "node-keys");
  rmSync(dir, { recursive: true, force: true });
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  regions.keyDir = dir;
  return dir;
}
