/** The form of a new region. Pure. */
export type Draft = {
  kind: "ssh" | "slurm";
  name: string;
  address: string;
  port: string;
  user: string;
  workDir: string;
  rate: string;
  /** Id of a stored key; empty: the pair below is a new one. */
  keyId: string;
  publicKey: string;
  privateKey: string;
  partition: string;
  account: string;
  maxJobs: string;
};

export const BLANK: Draft = {
  kind: "ssh",
  name: "",
  address: "",
  port: "22",
  user: "",
  workDir: "verk",
  rate: "",
  keyId: "",
  publicKey: "",
  privateKey: "",
  partition: "",
  account: "",
  maxJobs: "8",
};

/** The first field that is missing, in words. Undefined: the form can be tested. */
export function missingIn({ name, address, user, keyId, publicKey, privateKey }: Draft): string | undefined {
  if (name.trim() === "") return "Give the region a name.";
  if (address.trim() === "") return "Enter the address of the machine.";
  if (user.trim() === "") return "Enter the user on that machine.";
  if (keyId === "" && (publicKey.trim() === "" || privateKey.trim() === "")) return "Choose a key, or paste a pair.";
  return undefined;
}

/** The part that a test needs. A changed value needs another test. */
export const checkBody = ({ kind, address, port, user, workDir, keyId }: Draft) => ({
  kind,
  address: address.trim(),
  port: Number(port),
  user: user.trim(),
  work_dir: workDir.trim(),
  ssh_key_id: keyId,
});

/** `hostKey`: the one that the test has shown. */
export const regionBody = (draft: Draft, hostKey: string) => ({
  ...checkBody(draft),
  name: draft.name.trim(),
  host_key: hostKey,
  rate_usd_per_hour: draft.rate === "" ? null : Number(draft.rate),
  ...(draft.kind === "slurm"
    ? {
        slurm: {
          partition: draft.partition.trim() || null,
          account: draft.account.trim() || null,
          max_jobs: Number(draft.maxJobs),
        },
      }
    : {}),
});
