import { expect, test } from "bun:test";
import { fixFor, foundDevices, foundSpace, SLURM_VERSION } from "./check_text.ts";

const NODE = { address: "lab.example", port: 22, user: "ada", workDir: "verk" };

test("each failure has the sentence that fixes it", () => {
  const fixes = [
    fixFor("address", "lab.example: this name is unknown", NODE),
    fixFor("address", "10.0.0.1 is not allowed: it is private", NODE),
    fixFor("host_key", "it shows no host key", NODE),
    fixFor("host_key", "The node shows the host key A, not the pinned B", NODE),
    fixFor("sign_in", "ada@lab: Permission denied (publickey).", NODE),
    fixFor("work_dir", "mkdir: cannot create directory", NODE),
    fixFor("slurm", "sbatch is not on the PATH of this user", NODE),
    fixFor("program", "./verk: cannot execute: Exec format error", NODE),
  ];
  expect(fixes.map((fix) => fix.split(/[,:.]/)[0])).toEqual([
    "Check the spelling of the host name",
    "The operator can allow lab",
    "Check that an SSH server listens at port 22 of lab",
    "If the machine was set up again",
    "Add the public key to ~/",
    "The user ada cannot write in verk",
    "Give the address of a login node of the cluster",
    "The node has another kind of processor than this server",
  ]);
});

test("space and devices are read from the output of the node", () => {
  expect(foundSpace("/dev/sda1 1000000 500000 1048576 50% /home")).toBe("It can be written, 1 GiB are free");
  expect(foundSpace("strange")).toBe("It can be written");
  expect(foundDevices("8\nNVIDIA H200\nNVIDIA H200", "ssh")).toBe("8 processors, 2 × NVIDIA H200");
  expect(foundDevices("4", "slurm")).toBe("The login node has 4 processors, no GPU; Slurm chooses the nodes of jobs");
});

test("a node without sbatch and a Slurm that does not answer have different fixes", () => {
  const { stderr, exitCode } = Bun.spawnSync(["/bin/sh", "-c", SLURM_VERSION], { env: { PATH: "/nonexistent" } });
  expect(exitCode).toBe(1);
  expect(fixFor("slurm", stderr.toString(), NODE)).toContain("login node of the cluster");
  expect(fixFor("slurm", "slurm_load_partitions: Unable to contact", NODE)).toContain("sinfo works");
});
