import { describe, expect, test } from "bun:test";
import { missingWorkerLayers, WORKER_LAYERS } from "./layers.ts";
import { type ConfinedKind, confineArgs, type Facts, gpuDevices, POLICIES, policyOf, rulesFor } from "./policy.ts";

const DATA = "/var/lib/verk";
const facts: Facts = {
  program: "/usr/local/bin/verk",
  interpreter: "/lib/ld.so",
  sources: null,
  libraries: `${DATA}/native`,
  libraryPath: "/opt/cuda/lib64:relative:",
  devices: ["/dev/nvidia0"],
  cudaCache: `${DATA}/run/.nv/ComputeCache`,
  folder: { own: `${DATA}/run/wrk_1`, given: `${DATA}/models/.given/wrk_1`, socketDir: `${DATA}/run/wrk_1` },
};
const KINDS = Object.keys(POLICIES) as ConfinedKind[];

describe.each(KINDS)("%s", (kind) => {
  const rules = rulesFor(POLICIES[kind], facts, {});
  const paths = rules.map(([, path]) => path);

  test("of the data directory it has its own folder, what it is given and the libraries", () => {
    const { own, given } = facts.folder;
    expect(paths.filter((path) => path.startsWith(DATA))).toEqual([facts.libraries, given, own]);
  });

  test("it has no folder that holds others' files", () => {
    for (const path of ["/", "/etc", "/home", "/root", "/run", "/tmp", "/var", "/dev", DATA, `${DATA}/run`])
      expect(paths).not.toContain(path);
  });

  test("it writes its own folder alone, and starts itself alone", () => {
    expect(rules.filter(([access]) => access === "writes")).toEqual([["writes", facts.folder.own]]);
    expect(rules.filter(([access]) => access === "runs").map(([, path]) => path)).toEqual([
      facts.program,
      "/lib/ld.so",
    ]);
    expect(rules.filter(([access]) => access === "drives")).toEqual([["drives", "/dev/null"]]);
  });
});

test("a worker on a GPU has its devices and the driver's cache", () => {
  const rules = rulesFor(POLICIES.serving, facts, { gpu: true, reads: ["/models/m.gguf"] });
  expect(rules).toContainEqual(["drives", "/dev/nvidia0"]);
  expect(rules).toContainEqual(["writes", facts.cudaCache]);
  expect(rules).toContainEqual(["reads", "/models/m.gguf"]);
  expect(gpuDevices(["nvidia0", "nvidiactl", "nvidia-uvm", "null", "sda", "dxg", "kvm"])).toEqual([
    "/dev/nvidia0",
    "/dev/nvidiactl",
    "/dev/nvidia-uvm",
    "/dev/dxg",
  ]);
});

test("directories of LD_LIBRARY_PATH are read, but not one that depends on where the server was started", () => {
  const paths = rulesFor(POLICIES.trainer, facts, {}).map(([, path]) => path);
  expect(paths).toContain("/opt/cuda/lib64");
  expect(paths).not.toContain("relative");
  expect(paths).not.toContain("");
});

test("libraries are extracted for the kinds that load them", () => {
  expect(POLICIES.serving.groups(false)).toEqual(["cxx", "shim", "llama"]);
  expect(POLICIES.serving.groups(true)).toEqual(["cxx", "shim", "llama-cuda"]);
  expect(POLICIES.inspector.groups()).toEqual([]);
});

test("kinds without an entry are not confined: fakes, and reward code, which locks itself in", () => {
  for (const kind of ["fake", "fake_serving", "reward", "probe", "unpack", "toString"])
    expect(policyOf(kind)).toBeUndefined();
});

test("sandbox.require asks a worker for the layers that it can have", () => {
  expect(missingWorkerLayers("language", [])).toEqual([]);
  expect(missingWorkerLayers("process", ["no_new_privs"])).toEqual(["seccomp"]);
  expect(missingWorkerLayers("full", ["no_new_privs", "seccomp"])).toEqual(["landlock", "namespaces"]);
  expect(missingWorkerLayers("full", ["no_new_privs", "seccomp"], true)).toEqual(["landlock"]);
  expect(missingWorkerLayers("full", WORKER_LAYERS)).toEqual([]);
});

test("the arguments of verk-confine", () => {
  const rules = [["reads", "/usr"]] as const;
  const start = { layers: WORKER_LAYERS, network: true, listens: false, owner: false, nice: 10, rules };
  expect(confineArgs(start, ["/verk", "worker", "unpack"], ["/verk", "worker", "connector"])).toEqual([
    ...["--layers", "seccomp,landlock,namespaces", "--network", "--nice", "10", "--reads", "/usr"],
    ...["--before", "3", "/verk", "worker", "unpack", "--", "/verk", "worker", "connector"],
  ]);
});
