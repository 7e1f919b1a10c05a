/** The limits, the network and the variables of the command of a custom job. */
export const NETWORKS = ["none", "guarded"] as const;
/** `guarded`: connections through a proxy that checks every address. */
export type Network = (typeof NETWORKS)[number];

export type JobResources = {
  /** All processes of the command together, and /tmp. */
  memory_mib: number;
  /** Null: all of them. */
  cpus: number | null;
  disk_mib: number;
  /** Memory to lease on each GPU. Null: the whole GPU, and for jobs on the CPU. */
  gpu_memory_mib: number | null;
};

/** Variables that the jail sets itself. */
export const isReservedVariable = (name: string) => name.startsWith("VERK_") || name === "CUDA_VISIBLE_DEVICES";
