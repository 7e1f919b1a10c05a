/**
 * `verk node VERB ROOT …`: the side of a provider that runs on the node. A server of the same version calls it over ssh.
 * Answers are JSON on standard output. No command line of people: it is in no help page.
 */
import { errorText } from "../../lib/error_text.ts";
import { UsageError } from "../../lib/errors.ts";
import { Handle } from "../../platform/providers/protocol.ts";
import { catFile, lackingFiles, listCheckpoints, listFiles, putFile, removeJob } from "./files.ts";
import { nodeInfo } from "./info.ts";
import { attachReplica, startReplica, stopReplica } from "./replica/verbs.ts";
import { cancelRun, observeRuns, printRecords, startRun, storePlan } from "./runs.ts";
import { slurmVerb } from "./slurm.ts";

type Verb = (root: string, ...args: string[]) => unknown;

const handleOf = (text = "") => Handle.parse(JSON.parse(text));
const stdin = async () => JSON.parse(await Bun.stdin.text()) as unknown;

/** A verb that returns undefined has written its answer itself. */
const VERBS: Record<string, Verb> = {
  info: (root) => nodeInfo(root),
  lacking: async (root) => await lackingFiles(root, await stdin()),
  put: async (root, path = "", sha256 = "") => await putFile(root, path, sha256),
  plan: async (root, handle) => await storePlan(root, handleOf(handle), await stdin()),
  start: (root, handle) => startRun(root, handleOf(handle)),
  run: async (root, handle) => await (await import("./supervise.ts")).supervise(root, handleOf(handle)),
  rank: async (root, handle) => await (await import("./ranks.ts")).superviseRanks(root, handleOf(handle)),
  observe: async (root) => observeRuns(root, await stdin()),
  cancel: (root, handle, how) => cancelRun(root, handleOf(handle), how === "save" ? "save" : "stop"),
  records: async (root, handle, from) => await printRecords(root, handleOf(handle), Number(from)),
  files: async (root, path = "") => await listFiles(root, path),
  cat: async (root, path = "") => await catFile(root, path),
  checkpoints: async (root, job = "", ...drop) => await listCheckpoints(root, job, drop),
  remove: async (root, job = "") => await removeJob(root, job),
  replica_start: async (root, keep = "[]", plan = "") => await startReplica(root, JSON.parse(keep), JSON.parse(plan)),
  replica_run: async (root, name = "") => await (await import("./replica/run.ts")).superviseReplica(root, name),
  replica_stop: async (root, name = "") => await stopReplica(root, name),
  replica_attach: async (root, name = "") => await attachReplica(root, name),
  replica_pipe: async (root, name = "") => await (await import("./replica/tunnel.ts")).pipeReplica(root, name),
  slurm: slurmVerb,
  slurm_replica: async (...words) => await (await import("./replica/slurm.ts")).slurmReplicaVerb(...words),
};

export async function runNode([verb = "", root = "", ...args]: string[]): Promise<void> {
  const run = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
  if (!run || root === "") throw new UsageError("`verk node` is started by the server and cannot be run by hand");
  try {
    const answer = await run(root, ...args);
    if (answer !== undefined) await Bun.write(Bun.stdout, JSON.stringify(answer));
  } catch (error) {
    if (error instanceof UsageError) throw error;
    // One line without a stack: the server shows it to the owner of the job.
    throw new UsageError(errorText(error), 1, { cause: error });
  }
}
