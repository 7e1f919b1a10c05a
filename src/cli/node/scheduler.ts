/** Facts that Slurm gives a supervisor in its environment. Without Slurm, the node is the supervisor's own. */
import { availableParallelism } from "node:os";
import { ambientEnv } from "../../platform/config/config.ts";

const numberIn = (name: string): number | undefined => {
  const text = ambientEnv()[name];
  return text !== undefined && /^\d+$/.test(text) ? Number(text) : undefined;
};

export const isScheduled = () => numberIn("SLURM_JOB_ID") !== undefined;

/** True if Slurm has put the job back into its queue and starts it again. */
export const isRestart = () => (numberIn("SLURM_RESTART_COUNT") ?? 0) > 0;

/** The number of nodes of the job. */
export const nodeCount = () => numberIn("SLURM_JOB_NUM_NODES") ?? 1;

/** The number of this process among those that one `srun` started. */
export const stepIndex = () => numberIn("SLURM_PROCID") ?? 0;

/** The address of the node that called `srun`. */
export const launchAddress = () => [ambientEnv()["SLURM_LAUNCH_NODE_IPADDR"]].filter((each) => each !== undefined);

export const cpusPerTask = () => numberIn("SLURM_CPUS_PER_TASK");
/** Processors of this node that Slurm gives to the job. Not every cluster binds the processes of a job to them. */
export const allottedCpus = () => cpusPerTask() ?? numberIn("SLURM_CPUS_ON_NODE");
export const cpuCount = () => allottedCpus() ?? availableParallelism();

/** Numbers or UUIDs; undefined: all GPUs of the node. */
export const visibleGpus = (): string[] | undefined =>
  ambientEnv()
    ["CUDA_VISIBLE_DEVICES"]?.split(",")
    .filter((each) => each !== "");

/** The number of GPUs that the job may use. CUDA counts them from 0 on, because workers get the same variable. */
export const gpuCount = (shown: number) => visibleGpus()?.length ?? shown;
