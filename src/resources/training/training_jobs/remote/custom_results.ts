/** Takes what the command of a custom job has left on a node: changes of volumes, and the output. */
import type { Ctx } from "../../../../context.ts";
import { EMPTY_TAR_BYTES } from "../../../../lib/archive/tar_write.ts";
import { MIB } from "../../../../lib/units.ts";
import { readAside } from "../../../../platform/outside.ts";
import { CUSTOM_RESULTS, RESULTS, RESULTS_ARCHIVE, RESULTS_LIST } from "../../../../platform/providers/protocol.ts";
import { readStaged, removeStaging, stagedBytes, stagingDir } from "../../../../platform/providers/staging.ts";
import type { Provider } from "../../../../platform/providers/types.ts";
import { makeSandboxDir, workspaceOf } from "../../../../sandbox/files/sandbox_dir.ts";
import { openStage } from "../../../../sandbox/files/stage.ts";
import { OUTPUT } from "../../../../sandbox/jail/custom_jail.ts";
import { sessionOwner } from "../../../../sandbox/jail/session_jail.ts";
import { spaceMeter } from "../../../data/storage_usage/service.ts";
import { unpackFromNode } from "../../code_artifacts/unpack.ts";
import { removeJobDir, type VolumeCopy } from "../custom/files.ts";
import { resourcesOf } from "../custom/resources.ts";
import { storeOutput, writeBackAll } from "../custom/run.ts";
import type { JobLog } from "../logs/file.ts";
import type { RunEnd } from "../policy.ts";
import { isReadOnly } from "../policy.ts";
import type { RemoteRunRow } from "../remote_runs.ts";
import { pathsOf } from "../state/paths.ts";
import type { JobRow } from "../table.ts";

const WORKSPACE = "/workspace/";

type Source = { provider: Provider; run: RemoteRunRow; log: JobLog; end: RunEnd };

/** A second call does the same again: the files of the node stay until the run is closed. Changes `end` if the output cannot be kept. */
export async function takeResults(ctx: Ctx, job: JobRow, { provider, run, log, end }: Source): Promise<void> {
  const { data_dir: dataDir } = ctx.config;
  const name = `${run.jobId}-pull`;
  const from = `${stagingDir(dataDir, name)}/${RESULTS}`;
  const { work } = pathsOf(ctx, job.id);
  const owner = sessionOwner(dataDir);
  try {
    using meter = pullMeter(ctx);
    const handle = { job: run.jobId, attempt: run.attempt };
    if (!(await provider.pull(handle, RESULTS, from, meter)) || ctx.closing.aborted) return;
    const list = await readStaged(`${from}/${RESULTS_LIST}`);
    const { removed, faults } = await readAside(CUSTOM_RESULTS, list, { workspaceId: job.workspaceId });
    await makeSandboxDir(work, owner);
    const path = `${from}/${RESULTS_ARCHIVE}`;
    const size = stagedBytes(path);
    meter.take(size); // the child process writes them
    const into = { path, dir: workspaceOf(work), owner: owner ?? null };
    const { disk_mib } = resourcesOf(ctx, job);
    const limits = { entries: ctx.config.sessions.disk_entries, bytes: 2 * disk_mib * MIB };
    if (size > EMPTY_TAR_BYTES) await unpackFromNode(ctx, job.workspaceId, { ...into, limits });
    const copies = job.volumes.map((volume, i): VolumeCopy => {
      const below = isReadOnly(volume) ? null : volume.mount_path.slice(WORKSPACE.length);
      if (below !== null) openStage(work, below, owner).close();
      return { volume, below, hashes: new Map(removed[i] ?? []) };
    });
    openStage(work, OUTPUT, owner).close();
    const dir = { work, copies };
    for (const fault of [...faults, ...(await writeBackAll(ctx, job, dir))]) log.add("stderr", fault);
    const failure = end.trained ? await storeOutput(ctx, job, { dir, log }) : undefined;
    if (failure) Object.assign(end, { trained: false, kind: "custom_crashed", message: failure.message });
  } finally {
    removeStaging(dataDir, name);
    await removeJobDir(ctx, job.id);
  }
}

function pullMeter(ctx: Ctx) {
  const meter = spaceMeter(ctx);
  return Object.assign(meter, { expect: (bytes: number) => void bytes });
}
